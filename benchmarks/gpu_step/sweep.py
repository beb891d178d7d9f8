"""Goes through batch sizes: compiles all variants, then times them in turn, until the time is up."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.gpu_step.programs import (
    PARTS,
    Program,
    Variant,
    compiled,
    is_out_of_memory,
    random_batch,
)
from benchmarks.gpu_step.report import STEP, Difference, LeftOut, Row
from benchmarks.gpu_step.timing import interleaved

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.gpu_step.report import Report
    from cloudgan.schema.presets import Preset


class SweepRequest(NamedTuple):
    """What to time."""

    preset: Preset
    conv_impls: tuple[str, ...]
    precisions: tuple[str, ...]
    batches: tuple[int, ...]  # of whole steps
    part_batches: tuple[int, ...]  # of forward and backward passes of each network
    rounds: int
    seconds_a_turn: float
    minutes: float
    compile_threads: int


class Cell(NamedTuple):
    """One program of one variant."""

    variant: Variant
    program: str

    def __str__(self) -> str:
        return f"{self.program} {self.variant.conv_impl} {self.variant.precision}"


class Sweep:
    """One run of the benchmark; what it found is in the report as soon as it is found."""

    def __init__(self, asked: SweepRequest, report: Report, say: Callable[[str], None]) -> None:
        """Notes when it began.

        Args:
            asked: What to time.
            report: Gets every row.
            say: Gets lines for who waits.
        """
        self._request, self._report, self._say = asked, report, say
        self._ends = time.monotonic() + 60 * asked.minutes
        self._longest_compile: dict[str, float] = {}  # by program
        self._too_large: set[tuple[str, str, str]] = set()

    def run(self, save: Callable[[], None]) -> None:
        """Times everything that the time allows; `save` is called after each batch size."""
        variants = [
            self._built(conv_impl, precision)
            for precision in self._request.precisions
            for conv_impl in self._request.conv_impls
        ]
        sizes = dict.fromkeys(self._request.batches, (STEP,))
        for size in self._request.part_batches:
            sizes[size] = (*sizes.get(size, ()), *PARTS)
        for size, programs in sorted(sizes.items()):
            cells = [Cell(variant, name) for name in programs for variant in variants]
            self._time(cells, size)
            jax.clear_caches()
            save()

    def _built(self, conv_impl: str, precision: str) -> Variant:
        self._say(f"building {conv_impl} in {precision}")
        return Variant(self._request.preset, conv_impl, precision)

    def _time(self, cells: list[Cell], size: int) -> None:
        """Compiles, runs once and times these cells at one batch size."""
        self._say(f"batch {size}: compiling up to {len(cells)} programs")
        batch = random_batch(self._request.preset, size)
        programs = self._compiled([cell for cell in cells if self._fits(cell, size)], size, batch)
        results: dict[Cell, Any] = {}
        for cell in list(programs):
            try:
                results[cell] = jax.block_until_ready(programs[cell].run())
            except Exception as error:  # noqa: BLE001 - XLA's errors have no class of their own
                del programs[cell]
                self._leave_out(cell, size, error)
            if cell.program != STEP:
                results.pop(cell, None)
        self._compare({cell: result for cell, result in results.items() if cell in programs}, size)
        del results
        if not programs:
            return
        self._say(f"batch {size}: timing {len(programs)} programs in turn")
        timed = interleaved(
            {cell: program.seconds for cell, program in programs.items()},
            rounds=self._request.rounds,
            seconds_a_turn=self._request.seconds_a_turn,
            is_late=lambda: self._left() <= 0,
        )
        for cell, seconds in timed.items():
            program = programs[cell]
            row = Row(
                cell.program,
                cell.variant.conv_impl,
                cell.variant.precision,
                size,
                tuple(seconds),
                program.compile_seconds,
                program.flops,
                program.moved_bytes,
                program.temporary_bytes,
            )
            self._report.rows.append(row)
            self._say(f"batch {size}: {cell}: {row.samples_per_second:.1f} samples/s")

    def _fits(self, cell: Cell, size: int) -> bool:
        too_large = self._name(cell) in self._too_large
        if too_large:
            self._record_validation(cell, size, "out of memory with fewer showers already")
        return not too_large

    def _compiled(self, cells: list[Cell], size: int, batch: dict[str, Any]) -> dict[Cell, Program]:
        """Compiles as many at once as was asked for, while there is time."""
        programs: dict[Cell, Program] = {}
        at_once = self._request.compile_threads
        with ThreadPoolExecutor(at_once) as threads:
            for wave in (cells[i : i + at_once] for i in range(0, len(cells), at_once)):
                if self._left() <= max(self._longest_compile.get(c.program, 0.0) for c in wave):
                    for cell in wave:
                        self._record_validation(cell, size, "no time left to compile it")
                    continue
                futures = {
                    cell: threads.submit(compiled, *cell.variant.lowered(cell.program, batch))
                    for cell in wave
                }
                for cell, future in futures.items():
                    try:
                        programs[cell] = future.result()
                    except Exception as error:  # noqa: BLE001
                        self._leave_out(cell, size, error)
                        continue
                    seconds = programs[cell].compile_seconds
                    longest = self._longest_compile.get(cell.program, 0.0)
                    self._longest_compile[cell.program] = max(longest, seconds)
                    self._say(f"batch {size}: compiled {cell} in {seconds:.1f} s")
        return programs

    def _compare(self, results: dict[Cell, Any], size: int) -> None:
        """Notes how far each variant's first step is from that of the first variant."""
        if not results or self._report.differences:
            return
        first, (losses, state) = next(iter(results.items()))
        count = first.variant.learned

        def learned(state: list[Any]) -> Any:
            return jnp.concatenate([weight.ravel() for weight in state[:count]])

        began = learned(first.variant.state)
        moved = learned(state) - began
        for cell, (said, other) in results.items():
            apart = jnp.linalg.norm(learned(other) - began - moved) / jnp.linalg.norm(moved)
            loss = abs(said[0, -1] / losses[0, -1] - 1)  # of the first pass: no update before it
            self._report.differences.append(
                Difference(
                    cell.variant.conv_impl,
                    cell.variant.precision,
                    size,
                    float(apart),
                    float(loss),
                )
            )

    def _leave_out(self, cell: Cell, size: int, error: Exception) -> None:
        if is_out_of_memory(error):
            self._too_large.add(self._name(cell))
            self._record_validation(cell, size, f"out of memory with {size} showers")
        else:
            self._record_validation(
                cell, size, f"{type(error).__name__}: {str(error).splitlines()[0]}"
            )

    def _record_validation(self, cell: Cell, size: int, reason: str) -> None:
        self._say(f"batch {size}: left out {cell}: {reason}")
        variant = cell.variant
        self._report.left_out.append(
            LeftOut(cell.program, variant.conv_impl, variant.precision, size, reason)
        )

    def _left(self) -> float:
        return self._ends - time.monotonic()

    @staticmethod
    def _name(cell: Cell) -> tuple[str, str, str]:
        return cell.program, cell.variant.conv_impl, cell.variant.precision
