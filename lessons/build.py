"""Makes and executes the notebooks.

python -m lessons.build            # all lessons, both versions
python -m lessons.build 2 4        # lessons 2 and 4
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbclient import NotebookClient
from nbformat import NotebookNode

from lessons.source import FOLDER, VERSIONS, lesson_paths, make_notebook, notebook_path

TIMEOUT_S = 120  # of one cell
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(notebook: NotebookNode, **options: Any) -> NotebookNode:
    """Runs it from top to bottom in the checkout; an error stops it unless its cell is allowed one."""
    return timed(notebook, **options)[0]


def timed(notebook: NotebookNode, **options: Any) -> tuple[NotebookNode, float]:
    """The notebook executed, as above, and the processor's seconds that its kernel took."""
    seconds = 0.0

    def look(**_: Any) -> None:
        nonlocal seconds
        seconds = sum(psutil.Process(client.km.provisioner.pid).cpu_times()[:4])  # its children's too

    client = NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        store_widget_state=False,
        resources={"metadata": {"path": str(FOLDER.parent)}},
        on_cell_executed=look,
        **options,
    )
    executed = client.execute()
    for cell in executed.cells:
        cell.metadata.pop("execution", None)  # times of day: they would change with every build
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)  # of no use without its state; its picture stays
            if output["output_type"] == "error":  # a traceback is full of paths of the machine that built it
                output["traceback"] = [f"{output['ename']}: {output['evalue']}".rstrip(": ")]
    return executed, seconds


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Prints in a row as one output; where they are cut depends on how busy the machine is."""
    whole = list[NotebookNode]()
    for output in outputs:
        before = whole[-1] if whole else NotebookNode(output_type="")
        if output.output_type == before.output_type == "stream" and output.name == before.name:
            before.text += output.text
        else:
            whole.append(output)
    return whole


def build(source: Path) -> None:
    """Writes both versions of one lesson."""
    for version in VERSIONS:
        path = notebook_path(source, version)
        path.parent.mkdir(exist_ok=True)
        nbformat.write(execute(make_notebook(source, version)), path)
        print(path.relative_to(FOLDER.parent))


def main() -> None:
    """Builds the lessons whose numbers are given, or all."""
    numbers = {int(argument) for argument in sys.argv[1:]}
    for source in lesson_paths():
        if not numbers or int(source.stem[:2]) in numbers:
            build(source)


if __name__ == "__main__":
    main()
