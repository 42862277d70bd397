from tests.smtp.conftest import certificates

__all__ = ["certificates"]
