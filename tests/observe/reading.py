"""How much of the growing tables a statement reads, including nested statements. Used to test promises about cost."""

import json
from typing import Any

from fairpost.store.store import Store

_DISCARDED = ("Rows Removed by Filter", "Rows Removed by Index Recheck")


async def rows_read(store: Store, sql: str, *arguments: Any) -> float:
    """Skipped index entries do not count."""
    said: list[str] = []
    async with store.connection() as conn:
        conn.add_log_listener(listener := lambda _, message: said.append(message.message))
        await conn.execute(
            """LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
               SET auto_explain.log_analyze = on; SET auto_explain.log_timing = off; SET auto_explain.log_format = json;
               SET auto_explain.log_level = notice"""
        )
        await conn.fetch(sql, *arguments)
        await conn.execute("SET auto_explain.log_min_duration = -1")
        conn.remove_log_listener(listener)
    plans = [json.loads(text[text.index("{") :]) for text in said if "plan:" in text and "fairpost." in text]
    scans = [node for plan in plans for node in _walk(plan["Plan"]) if "Relation Name" in node]
    assert scans, "auto_explain showed no scan, so this test would prove nothing"
    return sum(
        float((node["Actual Rows"] + sum(node.get(name, 0) for name in _DISCARDED)) * node["Actual Loops"])
        for node in scans
    )


def _walk(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _walk(child))]
