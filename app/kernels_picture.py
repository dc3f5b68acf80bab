"""The pictures of the Kernels page, as HTML: the block table, the pool, the scores, the numbers."""

from collections.abc import Sequence
from html import escape

from app.online_softmax import Case, Part, Step, Walk, Walked

LATER, NOW, READ = "later", "now", "read"


def progress_of(walked: Walked, at: int) -> list[str]:
    """For each logical block: has been read, is being read or comes later, at step `at` (from 0)."""
    last = max(block for step in walked.steps for block in step.blocks)
    state = [LATER] * (last + 1)
    for place, step in enumerate(walked.steps[: at + 1]):
        for block in step.blocks:
            state[block] = NOW if place == at else READ
    return state


def table_picture(case: Case, walked: Walked, at: int) -> str:
    """The block table by chunk: logical over physical number."""
    state = progress_of(walked, at)
    groups: list[str] = []
    for number, part in enumerate(walked.parts):
        blocks = range(part.first // case.block_size, (part.last - 1) // case.block_size + 1)
        cells = "".join(
            f'<li class="{state[block]}"><small>{block}</small><b>{case.table[block]}</b></li>'
            for block in blocks
        )
        name = f"chunk {number}: tokens {part.first:,} to {part.last - 1:,}"
        title = f"<p class='quiet'>{name}</p>" if len(walked.parts) > 1 else ""
        groups.append(f'<div>{title}<ol class="table" aria-label="{name}">{cells}</ol></div>')
    return f'<div class="chunks">{"".join(groups)}</div>'


def pool_picture(case: Case, walked: Walked, at: int) -> str:
    """Every physical block of the pool; those of others hold NaN and are never read."""
    state = progress_of(walked, at)
    owner = {physical: state[logical] for logical, physical in enumerate(case.table)}
    cells = "".join(
        f'<i class="{owner.get(block, "others")}" title="block {block}"></i>'
        for block in range(case.keys.shape[0])
    )
    told = f"{case.keys.shape[0]} blocks of the pool; {state.count(NOW)} are being read, "
    told += f"{state.count(READ)} have been, {state.count(LATER)} come later"
    return f'<div class="blocks" role="img" aria-label="{told}">{cells}</div>'


def scores_picture(walked: Walked, at: int) -> str:
    """Every score read so far as a bar, and the running maximum as a line, in units of the walk."""
    steps = walked.steps
    every = [score for step in steps for score in step.scores]
    low, high = min(*every, 0.0), max(*every, 0.5)
    num_tokens = steps[-1].last

    def box(first: int, last: int, upper: float, lower: float, kind: str) -> str:
        left, width = 100 * first / num_tokens, 100 * (last - first) / num_tokens
        top, height = 100 * (high - upper) / (high - low), 100 * (upper - lower) / (high - low)
        place = f"left:{left:.2f}%;width:{width:.2f}%;top:{top:.1f}%;height:{height:.1f}%"
        return f'<i class="{kind}" style="{place}"></i>'

    boxes: list[str] = []
    for place, step in enumerate(steps[: at + 1]):
        kind = NOW if place == at else READ
        for token, score in enumerate(step.scores, start=step.first):
            boxes.append(box(token, token + 1, max(score, 0.0), min(score, 0.0), kind))
        boxes.append(box(step.first, step.last, step.top, step.top, "top"))
    now = steps[at]
    told = f"scores of tokens 0 to {now.last - 1}; the running maximum is {now.top:.3f}"
    return f'<div class="scores" role="img" aria-label="{told}">{"".join(boxes)}</div>'


def numbers(step: Step, how: Walk) -> list[tuple[str, str, str]]:
    """What the step does to the running numbers: name, formula with numbers, result."""
    exp = "2^" if how.is_base_2 else "exp "
    best = max(step.scores)
    older = step.total - step.tile_sum
    is_first = step.top_before == float("-inf")
    before = "-∞" if is_first else f"{step.top_before:.4f}"
    sums = f"{exp}({before} - {step.top:.4f})"
    return [
        ("maximum m", f"max({before}, {best:.4f})", f"{step.top:.4f}"),
        ("rescale older sums by r", sums, f"{step.rescale:.4g}"),
        ("sum of weights l", f"{older:.4f} older, rescaled + {step.tile_sum:.4f} here", f"{step.total:.4f}"),
        ("output so far, against dense", "largest difference of any element", f"{step.error:.2e}"),
    ]


def merge_rows(parts: Sequence[Part], how: Walk) -> list[tuple[str, ...]]:
    """One row a chunk: what it brought and what it counts."""
    exp = "2^" if how.is_base_2 else "exp "
    highest = max(part.top for part in parts)
    return [
        (
            f"chunk {number}",
            f"{part.first:,} to {part.last - 1:,}",
            f"{part.top:.4f}",
            f"{part.total:.4f}",
            f"{exp}({part.top:.4f} - {highest:.4f}) = {part.scale:.4g}",
            f"{100 * part.share:.2f} %",
        )
        for number, part in enumerate(parts)
    ]


def caption(step: Step, case: Case) -> str:
    """What the step reads, in a sentence."""
    where = ", ".join(f"{logical} → {case.table[logical]}" for logical in step.blocks[:8])
    more = f" and {len(step.blocks) - 8} more" if len(step.blocks) > 8 else ""
    unit = "block" if len(step.blocks) == 1 else "blocks"
    return escape(
        f"Tokens {step.first:,} to {step.last - 1:,}: {unit} {where}{more} (logical → physical); "
        f"the highest of their {len(step.scores)} scores is {max(step.scores):.3f}."
    )
