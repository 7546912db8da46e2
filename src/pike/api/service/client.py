"""The client of an evaluation service, for Python.

Knows the verbs: submit, poll, cancel, evaluate. Does not know the wire (`engine`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike.api.judging import text_of
from pike.api.options import compose_config, given
from pike.api.targets import ExampleInputs, Target, task_for_now, words_for
from pike.core.codec import decode
from pike.core.verdict.evaluation import Effort, Evaluation, EvaluationRequest
from pike.engine.executors.parcel import pack
from pike.engine.executors.service.connection import Connection
from pike.engine.executors.service.wire import ServiceInfo, SubmissionState, submission_of
from pike.engine.executors.service.workers import failure_of, info_of, submitted


class EvaluationClient:
    """Asks an evaluation service (`pike serve --evaluate`).

    >>> client = pike.Client("http://gpu-box:8766")  # doctest: +SKIP
    >>> client.evaluate(model, source, example_inputs=example).status  # doctest: +SKIP
    <Status.WRONG_OUTPUT: 'wrong-output'>

    Attributes:
        info: what the service is, as it said at first.

    Args:
        address: `http://HOST:PORT`.
        token: what the service asks for; None for that in `PIKE_SERVE_TOKEN`.

    Raises:
        UserError: the service refuses the token, or has another version of PIKE, torch or numpy.
        InfraError: nothing answers.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self._connection = Connection(address, token)
        self.info: ServiceInfo = info_of(self._connection)

    def submit(
        self,
        target: Target,
        *sources: str | Path,
        example_inputs: ExampleInputs | None = None,
        effort: Effort = Effort.SEARCH,
        profile: bool = False,
        settings: Sequence[str] = (),
    ) -> SubmissionState:
        """Hand candidates in; several are judged together. A known submission costs nothing.

        Args:
            target: as for `optimize`.
            sources: the text of each candidate, or a `Path` to its file.
            example_inputs: for a module, as for `optimize`.
            effort: how much measuring is done.
            profile: also say where the time of a valid candidate goes.
            settings: `evaluate.NAME=VALUE` each.

        Raises:
            UserError: the target, an option or a candidate's path cannot be used, or the service
                refuses it.
            InfraError: the service is out of reach, or takes nothing more for now.
        """
        terms = compose_config(words_for(target), given({"settings": settings})).evaluate
        texts = [text_of(source) for source in sources]
        with task_for_now(target, example_inputs) as task:
            parcel = pack(task)
            requests = [EvaluationRequest(task, text, terms, effort, profile=profile) for text in texts]
        submission = submission_of(parcel.digest, requests, device=self.info.device.name)
        return submitted(self._connection, submission, lambda: parcel)

    def poll(self, id: str, wait_seconds: float = 0.0) -> SubmissionState:
        """Where a submission stands, at the latest after `wait_seconds` (at most 30).

        Raises:
            UserError: the service does not know it.
            InfraError: the service is out of reach.
        """
        said = self._connection.call("GET", f"/v1/submissions/{id}?wait={min(wait_seconds, 30.0):g}")
        return decode(SubmissionState, said)

    def cancel(self, id: str) -> SubmissionState:
        """Give a submission up; it is stopped unless someone else wants it. Raises as `poll` does."""
        return decode(SubmissionState, self._connection.call("DELETE", f"/v1/submissions/{id}"))

    def evaluate(self, target: Target, source: str | Path, **more: Any) -> Evaluation:
        """The verdict on one candidate; the arguments are those of `submit`.

        Raises:
            UserError: as for `submit`, or the task cannot be used.
            InfraError: as for `submit`, or the judge failed, or someone cancelled it.
        """
        told = self.submit(target, source, **more)
        while not told.ended:
            told = self.poll(told.id, 30.0)
        if told.evaluations:
            return told.evaluations[0]
        raise failure_of(told)


Client = EvaluationClient
"""The name under which `pike` offers it."""
