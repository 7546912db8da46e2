"""The prompts of a run before it begins, for people who judge or change them.

Knows the terms of a run and the device. Does not know words (`agents`), and asks no model.
"""

from pike.core.agent import Context, Prompt
from pike.core.settings.config import RunConfig
from pike.core.step import Role, Step
from pike.core.task import Task
from pike.engine.executors.contract import Executor
from pike.engine.run.configuration import resolve
from pike.engine.state.run_state import prompt_terms

_LOG = "(what the refused file printed stands here)"


async def prompts_of(task: Task, config: RunConfig, executor: Executor) -> tuple[str, dict[str, Prompt]]:
    """The version of the prompts, and a typical one of every role, with the original for candidates.

    Raises:
        UserError: the strategy, the device or the prompt folder cannot be used.
    """
    from pike.agents import original_file, prompts_version, sample

    config = resolve(config)
    terms, version = prompt_terms(config), prompts_version(config.prompt.folder)
    device = await executor.facts(config.evaluate.device)
    known = Context(task, Step(0, Role.OPTIMISE), device, config.evaluate, terms=terms)
    file = original_file(task)
    return version, {role.value: sample(role, known, file, _LOG) for role in Role}
