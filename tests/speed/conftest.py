from tests.money.conftest import lines, record

__all__ = ["lines", "record"]
