"""Every error Penstock raises on purpose, grouped by who has to act.

A message says what happened and where; ``remedy`` is the next thing to type or change. The CLI
prints both and never a stack trace; each leaf has its own exit code.
"""

from __future__ import annotations

from penstock.storable import storable

__all__ = [
    "in_a_line",
    "ContractBroken",
    "DefinitionError",
    "DeliveryFailed",
    "EnvironmentProblem",
    "ForeignCommit",
    "LeaseLost",
    "NotRunning",
    "PenstockError",
    "PositionLost",
    "ProducerUnusable",
    "QualityFailed",
    "QueryRefused",
    "ServiceFailed",
    "TransactionAborted",
    "TransformError",
    "UsageError",
]


class PenstockError(Exception):
    """Root of all errors; ``remedy`` tells the reader what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class UsageError(PenstockError):
    """The person at the keyboard asked for something that does not exist or makes no sense."""

    exit_code = 2


class DefinitionError(PenstockError):
    """The author of a table declared it wrongly; names the file and the line."""

    exit_code = 3


class QueryRefused(PenstockError):
    """A query tried something outside reading live tables, or ran past its caps."""

    exit_code = 4


class EnvironmentProblem(PenstockError):
    """The machine lacks something (Java, disk, a free port, a finished set-up)."""

    exit_code = 5


class ServiceFailed(PenstockError):
    """A service of the platform did not start, died or does not answer."""

    exit_code = 6


class NotRunning(PenstockError):
    """The command needs a running platform and there is none."""

    exit_code = 7


class LeaseLost(PenstockError):
    """Another supervisor holds this table now; this one must commit nothing more."""

    exit_code = 8


class ForeignCommit(PenstockError):
    """A live log is not what its writer left: somebody else wrote to it, or it shows a revision
    that nobody feeds."""

    exit_code = 9


class TransformError(PenstockError):
    """A definition's transform failed on data that passed its contract."""

    exit_code = 10


class ContractBroken(PenstockError):
    """A producer was about to send a row that its own contract refuses."""

    exit_code = 11


class QualityFailed(PenstockError):
    """A blocking check of a table failed, or could not be made."""

    exit_code = 13


class DeliveryFailed(PenstockError):
    """The broker did not take a record; its sender keeps it, mends it or sends it again."""

    exit_code = 14


class TransactionAborted(PenstockError):
    """Nothing of a transaction counts; whoever began it does its work once more."""

    exit_code = 15


class ProducerUnusable(PenstockError):
    """This producer can send nothing more: another has its name, or its numbering broke."""

    exit_code = 16


class PositionLost(PenstockError):
    """A reader's place in a topic is gone; somebody must say from where it goes on."""

    exit_code = 17


def in_a_line(error: BaseException, most: int = 500) -> str:
    """What happened, in one line: of Java's errors the line that names them, not py4j's; of a
    Python worker's the one below its indented trace. Storable: it may quote what is in a row."""
    lines = [line for line in storable(str(error)).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        lines = [lines[1].removeprefix(": ")]
    elif any(line.startswith("Traceback (most recent") for line in lines):
        last = max((n for n, line in enumerate(lines) if line[0].isspace()), default=-1)
        lines = lines[last + 1 :] or lines
    return lines[0].strip()[:most] if lines else type(error).__name__
