"""SpamAssassin with the rules of its package, on messages as stored by a receiver. Names are resolved only with the
given DNS server."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers.fetch import require

SECONDS_MAX = 300

SETTINGS = """
dns_available yes
dns_server {dns}:53
clear_trusted_networks
trusted_networks 127.0.0.0/8
use_bayes 0
use_razor2 0
use_pyzor 0
use_dcc 0
"""
SCRIPT = r"""
use strict; use warnings; use JSON::PP; use Mail::SpamAssassin;
my ($rules, $site, $home, @files) = @ARGV;
my $sa = Mail::SpamAssassin->new({ rules_filename => $rules, site_rules_filename => $site, userstate_dir => $home, dont_copy_prefs => 1,
    userprefs_filename => "$home/none", local_tests_only => 0, home_dir_for_helpers => $home });
$sa->init(1);
for my $file (@files) {
    open(my $in, "<:raw", $file) or die; local $/; my $mail = $sa->parse(scalar(<$in>), 1);
    my $status = $sa->check($mail); my %hits; my $conf = $sa->{conf};
    for my $rule (split /,/, $status->get_names_of_tests_hit()) { $hits{$rule} = 0 + ($conf->{scores}->{$rule} // 1) if $rule ne "none"; }
    print encode_json(\%hits), "\n"; $status->finish(); $mail->finish();
}
"""


def hits(messages: Sequence[bytes], *, dns: str, folder: Path) -> list[Mapping[str, float]]:
    """Returns, for each message, the score of each rule that matches."""
    software = require("spamassassin")
    root = software.root
    site = folder / "site"
    site.mkdir()
    for path in (root / "etc/spamassassin").glob("*.pre"):
        (site / path.name).write_bytes(path.read_bytes())
    (site / "local.cf").write_text(SETTINGS.format(dns=dns))
    script = folder / "check.pl"
    script.write_text(SCRIPT)
    files = []
    for number, message in enumerate(messages):
        files.append(folder / f"{number}.eml")
        files[-1].write_bytes(message)
    libraries = [root / "usr/share/perl5", *root.glob("usr/lib/*/perl5/*"), root / "usr/lib/perl5"]
    done = subprocess.run(
        [
            *("perl", *[f"-I{path}" for path in libraries], str(script)),
            *(str(root / "usr/share/spamassassin"), str(site), str(folder), *map(str, files)),
        ],
        env={**os.environ, **software.environment()},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
