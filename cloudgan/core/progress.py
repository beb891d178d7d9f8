"""Progress of long work, independent of how it is displayed."""

from __future__ import annotations


class Progress:
    """Displays one task at a time: the command line shows a bar, a notebook a line; this base shows nothing."""

    def start(
        self,
        task: str,
        total: float | None = None,
        unit: str = "",
        *,
        done: float = 0,
        count: str = "",
    ) -> None:
        """Starts `task` and ends the previous one.

        Args:
            task: What is done, in a few words.
            total: When it is finished; None: unknown.
            unit: What `total` counts.
            done: What earlier processes have done of it.
            count: Of a run of several parts, such as ``4/20`` epochs. Its own lines say what each
                part brought: it leaves none, nor do the tasks within it, such as a validation, after
                which it goes on when it is started again.
        """

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Advances the current task; `note` has short texts, with two spaces between them."""

    def say(self, line: str) -> None:
        """Displays a permanent line."""

    def end(self) -> None:
        """Ends the current task and its run, so that others can write to the terminal."""


class Silent(Progress):
    """Displays nothing."""
