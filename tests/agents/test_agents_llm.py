import random

import pytest
from agents_material import CANDIDATE, CPU, H100, MODULE_TASK, PLAN, SOURCE_TASK, make, needed, refused, solved

from pike.agents import LlmAgent, estimate
from pike.agents.prompts.prompting import render
from pike.core.agent import PromptTerms
from pike.core.errors import ProviderError
from pike.core.query import Answer, Finish
from pike.core.settings.config import LlmConfig
from pike.core.step import Role
from pike.core.task import Task, TaskKind
from pike.core.verdict.evaluation import EvaluateOptions
from pike.llm import complete_with_retries, connect
from pike.llm.fake_server import FakeReply, FakeServer
from pike.llm.scripted import ScriptedClient
from pike.llm.scripted.script import Line, Script
from pike.llm.tokens import approximate_tokens

FILE = "# fused relu\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"


class Silent:
    async def before(self, query, attempt, client): ...
    async def after(self, query, attempt, answer): ...
    async def failed(self, query, attempt, error): ...


def agent_for(client):
    async def asker(query):
        return await complete_with_retries(client, query, Silent(), 1, random.Random(0))

    return LlmAgent(dict.fromkeys(Role, asker))


def scripted(text, finish=Finish.STOP):
    return agent_for(ScriptedClient("scripted:x", Script(model="actor", lines=(Line(text=text, finish=finish),))))


async def test_a_brainstorm_brings_ideas():
    proposal = await scripted("1. Fuse\n2. Tile\n").act(make(Role.BRAINSTORM))
    assert proposal.ideas == ("Fuse", "Tile")
    assert proposal.author == "actor"
    assert proposal.source == ""


@pytest.mark.parametrize(
    ("finish", "why"),
    [
        (Finish.STOP, "the answer holds no list of ideas"),
        (Finish.LENGTH, "the answer holds no list of ideas (it was cut off by the output limit)"),
        (Finish.REFUSED, "actor declined to answer"),
    ],
)
async def test_an_unusable_brainstorm_brings_none_and_says_why(finish, why):
    proposal = await scripted("I have none for you.", finish).act(make(Role.BRAINSTORM))
    assert (proposal.ideas, proposal.failure) == ((), why)


async def test_of_several_files_in_an_answer_the_note_says_that_the_last_was_taken():
    other = FILE + "# other\n"
    proposal = await scripted(f"```python\n{other}```\nor\n```python\n{FILE}```\n").act(make())
    assert (proposal.source, proposal.note) == (FILE, "the last of 2 files in the answer: fused relu")
    twice = await scripted(f"```python\n{FILE}```\nagain\n```python\n{FILE}```\n").act(make())
    assert twice.note == "fused relu", "the same file twice is one"


async def test_an_optimisation_brings_a_file_with_author_and_note():
    agent = scripted(f"Sure.\n```python\n{FILE}```\n")
    plain = await agent.act(make())
    assert (plain.source, plain.refused, plain.author, plain.note) == (FILE, "", "actor", "fused relu")
    with_idea = await agent.act(make(step={"idea": "Use tiles.\nMore about tiles."}))
    assert with_idea.note == "Use tiles."


async def test_a_fix_names_what_it_repairs():
    context = make(Role.FIX, failing=refused(), step={"failing": "c4", "attempt": 2})
    proposal = await scripted(f"```\n{FILE}```").act(context)
    assert proposal.note == "fix 2 of c4: fused relu"


async def test_an_answer_without_a_file_is_refused_and_kept_for_the_fixer():
    proposal = await scripted("```python\nclass ModelNew(torch.nn.Mod", Finish.LENGTH).act(make())
    assert "output limit" in proposal.refused
    assert "class ModelNew" in proposal.source
    assert not proposal.failure


@pytest.mark.parametrize("role", [Role.OPTIMISE, Role.PLAN])
async def test_a_model_that_declines_closes_the_step(role):
    proposal = await scripted(f"No.\n```python\n{PLAN}```", Finish.REFUSED).act(make(role))
    assert "declined" in proposal.failure
    assert (proposal.source, proposal.refused, proposal.text) == ("", "", "")


async def test_a_plan_is_the_seed_with_anchors() -> None:
    agent = scripted(f"The product is bound by memory.\n```python\n{PLAN}```\n")
    proposal = await agent.act(make(Role.PLAN, seed=solved()))
    assert (proposal.text, proposal.source, proposal.failure) == (PLAN, "", "")
    drifted = await agent.act(make(Role.PLAN, seed=solved(source=FILE)))
    assert drifted.text == ""
    assert "does not match the file" in drifted.failure


async def test_a_plan_carried_out_is_a_file_with_the_plans_note() -> None:
    source = CANDIDATE.replace("pass", "mark = 1")
    proposal = await scripted(f"```python\n{source}```").act(make(Role.CODE, **needed(Role.CODE)))
    assert (proposal.source, proposal.refused) == (source, "")
    assert proposal.note.startswith("Fuse the ReLU into the product")


async def test_a_file_that_left_its_plan_is_refused_and_kept() -> None:
    proposal = await scripted(f"```python\n{FILE}```").act(make(Role.CODE, **needed(Role.CODE)))
    assert proposal.refused == "", "only its title differs from the plan's"
    other = FILE.replace("torch.nn.Module", "nn.Module")
    proposal = await scripted(f"```python\n{other}```").act(make(Role.CODE, **needed(Role.CODE)))
    assert proposal.refused.startswith("anchor drift: ")
    assert proposal.source == other


async def test_a_repair_without_a_file_is_refused_for_that() -> None:
    proposal = await scripted("I cannot.").act(make(Role.DEBUG, failing=refused(), step={"plan": PLAN}))
    assert "no code" in proposal.refused


async def test_a_provider_that_fails_is_the_engines_business():
    client = ScriptedClient("scripted:x", Script(lines=(Line(errors=(500,)),)))
    with pytest.raises(ProviderError):
        await agent_for(client).act(make())


async def test_each_role_has_its_own_asker():
    asked = []

    def asker(name):
        async def ask(query):
            asked.append((name, query.role))
            return Answer("")

        return ask

    agent = LlmAgent({role: asker(role.value) for role in Role})
    for role in Role:
        await agent.act(make(role, **needed(role)))
    assert asked == [(role.value, role) for role in Role]


async def test_over_a_real_socket_the_whole_prompt_arrives(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    context = make(device=H100)
    with FakeServer([FakeReply(f"```python\n{FILE}```")]) as server:
        client = connect(f"openai:m@{server.url}", LlmConfig())
        proposal = await agent_for(client).act(context)
        await client.aclose()
        messages = server.requests[0].body["messages"]
    assert proposal.source == FILE
    assert [message["content"] for message in messages] == [render(context).system, render(context).user]


@pytest.mark.parametrize("task", [SOURCE_TASK, MODULE_TASK])
def test_an_estimate_covers_every_role_and_counts_the_real_prompt(task):
    rows = {row.role: row for row in estimate(task, CPU, EvaluateOptions(), PromptTerms())}
    assert set(rows) == set(Role)
    prompt = render(make(Role.BRAINSTORM, task=task))
    assert rows[Role.BRAINSTORM].input_tokens == approximate_tokens(prompt.system + prompt.user)
    assert rows[Role.FIX].input_tokens > rows[Role.OPTIMISE].input_tokens > rows[Role.BRAINSTORM].input_tokens


def test_a_longer_model_costs_more():
    long = Task("long", "long", TaskKind.SOURCE, SOURCE_TASK.source * 40, "x")
    for short_row, long_row in zip(
        estimate(SOURCE_TASK, CPU, EvaluateOptions(), PromptTerms()),
        estimate(long, CPU, EvaluateOptions(), PromptTerms()),
        strict=True,
    ):
        assert long_row.input_tokens > short_row.input_tokens
        assert long_row.output_tokens >= short_row.output_tokens
