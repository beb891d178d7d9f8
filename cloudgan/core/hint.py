"""One hint that saves money."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text


class Hint(BaseModel):
    """What a record shows, in figures, what changing it would save, and what to type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Text
    figure: Text = Field(description="what was measured, in words")
    saves_seconds_per_epoch: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="None: cannot be known from the record"
    )
    saves_usd: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="over all epochs of the run; None: cannot be known, or no price was given",
    )
    flag: Text = Field(description="what to type, or which key of run.yaml to set")

    def describe(self) -> str:
        """All of it in one line."""
        saved = []
        if self.saves_seconds_per_epoch is not None:
            saved.append(f"{self.saves_seconds_per_epoch:.3g} s per epoch")
        if self.saves_usd is not None:
            saved.append(f"{self.saves_usd:.3g} USD")
        saves = f"; saves {' and '.join(saved)}" if saved else ""
        return f"{self.title}: {self.figure}{saves}. Try {self.flag}"
