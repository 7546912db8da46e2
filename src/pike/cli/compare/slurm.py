"""`pike slurm`: campaigns as chains of Slurm jobs.

Knows what a job may ask for. Does not know what the script does (`api`).
"""

from pathlib import Path
from typing import Annotated

import typer

from pike.api import campaigns as api
from pike.cli import options as opt
from pike.cli.terminal import Terminal

Studies = Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="Files as for pike campaign.")]
Nodes = Annotated[int, typer.Option(min=1, metavar="N", help="Nodes; with several, judges work on Ray.")]
Gpus = Annotated[int, typer.Option(min=0, metavar="N", help="GPUs of each node.")]
Time = Annotated[str, typer.Option(metavar="H:MM:SS", help="The limit of each job, as for sbatch.")]
StopBefore = Annotated[int, opt.option("SECONDS", "How long before the limit the study is told to stop.", min=10)]
Out = Annotated[Path | None, opt.folder("Where campaigns go.", "runs")]
Submit = Annotated[bool, typer.Option("--submit", help="Also send the script with sbatch.")]
Sbatch = Annotated[
    list[str] | None, opt.option("OPTION", "One more option of sbatch; may be repeated.", name="--sbatch")
]


def slurm(
    configs: Studies,
    nodes: Nodes = 1,
    gpus_per_node: Gpus = 0,
    time: Time = "4:00:00",
    stop_before: StopBefore = 300,
    out: Out = None,
    settings: opt.Set = None,
    sbatch: Sbatch = None,
    submit: Submit = False,
    yes: opt.Yes = False,
    as_json: opt.Json = False,
) -> None:
    """Write a script that carries campaigns through as many Slurm jobs as they take."""
    terminal = Terminal(as_json)
    wanted = api.Allocation(nodes, gpus_per_node, time, stop_before, tuple(sbatch or ()))
    if submit and not yes:
        for config in configs:
            file = api.campaign_file(config, settings=settings or ())
            terminal.confirm_spending("campaign", api.campaign_usd(file))
    script, job = api.slurm_script(configs, out or Path("runs"), wanted, settings=settings or (), submit=submit)
    name = api.job_name(script)
    terminal.show(f"script    {script}")
    terminal.show(
        f"job       {job}, stop it and its successors with:  scancel --name {name}"
        if job
        else f"send it   sbatch {script}"
    )
    terminal.result({"script": str(script), "job": job, "name": name})
