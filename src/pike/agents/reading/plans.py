"""Plans: the file that one starts from, the plan in an answer, and its instructions in short.

Knows that a plan is a whole file with anchors, or free text from an agent that is no language
model. Knows which steps must keep to it. Does not know prompts or the form of anchors (`anchors`).
"""

from dataclasses import dataclass

from pike.agents.reading import anchors
from pike.agents.reading.anchors import AnchoredText
from pike.agents.reading.blocks import blocks
from pike.agents.reading.extract import SOURCE_BYTES, cut_off
from pike.agents.reading.originals import original_file
from pike.core.agent import Context
from pike.core.query import Answer, Finish
from pike.core.step import Role, Solution

DRIFT = "anchor drift: "
"""The beginning of the reason for a refusal, if a file left the spans that its plan allows."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of reading an answer that should hold a plan.

    Attributes:
        text: the plan, a whole file with anchors; empty if there is none.
        failure: why there is none.
    """

    text: str = ""
    failure: str = ""


def improvable(context: Context) -> str:
    """The file that a plan puts its anchors into: the seed's, or the original as a candidate."""
    return context.seed.candidate.source if context.seed else original_file(context.task)


def find(answer: Answer, seed: str) -> Found:
    """The plan in an answer, verified against the file that it was made for."""
    found = [block for block in blocks(answer.text, _whole) if anchors.marked(block.text)]
    if not found:
        return Found(failure=f"the answer holds no plan: no code block has an anchor{cut_off(answer.finish)}")
    chosen = found[-1]
    if not chosen.closed and answer.finish is Finish.LENGTH:
        return Found(failure="the plan was cut off by the output limit")
    text = chosen.text.strip("\n") + "\n"
    if len(text.encode("utf-8", "replace")) > SOURCE_BYTES:
        return Found(failure=f"the plan is larger than {SOURCE_BYTES // 1024} KiB")
    try:
        off = anchors.mismatch(anchors.read(text), seed)
    except ValueError as error:
        return Found(failure=f"the plan's anchors cannot be used: {error}")
    return Found(failure=f"the plan does not match the file it was made for: {off}") if off else Found(text)


def anchored(plan: str) -> AnchoredText | None:
    """A plan taken apart, None for one of free text."""
    try:
        return anchors.read(plan)
    except ValueError:
        return None


def instructions(plan: str) -> tuple[str, ...]:
    """The instructions of a plan: one text for each anchor, or the whole of a free text."""
    parts = anchored(plan)
    if parts is not None:
        return tuple(span.instruction for span in parts.spans)
    return (plan.strip(),) if plan.strip() else ()


def refusal(context: Context, source: str) -> str:
    """Why a file does not keep to its plan, empty if it does or if there is no plan with anchors.

    A coding step must keep to the anchors, and so must a repair of a file that left them.
    """
    plan = anchored(context.step.plan)
    if anchors.marked(source):
        return f"{DRIFT}an anchor is left in the file"
    held = context.step.role is Role.CODE or drifted(context.failing)
    off = anchors.drift(plan, source) if plan is not None and held else ""
    return f"{DRIFT}{off}" if off else ""


def drifted(failing: Solution | None) -> bool:
    """Whether a candidate was refused for leaving the anchors of its plan."""
    return failing is not None and failing.evaluation.reason.startswith(DRIFT)


def _whole(text: str) -> bool:
    return anchored(text.replace("\r\n", "\n")) is not None
