"""Runs cells in a Python that has NumPy and nothing else: bare_python.py SITE < jobs.json > outputs.json"""

import json
import sys
from importlib.abc import MetaPathFinder
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ALLOWED = {*sys.stdlib_module_names, "numpy", "sim", "lessons", "app"}


class OnlyNumPy(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in ALLOWED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def main() -> None:
    sys.meta_path.insert(0, OnlyNumPy())
    with TemporaryDirectory() as folder:
        ZipFile(f"{sys.argv[1]}/pagelab.zip").extractall(folder)
        sys.path.insert(0, folder)
        run_all(folder)


def run_all(folder: str) -> None:
    from lessons.browser.cells import run_json

    jobs = json.load(sys.stdin)
    answers = [json.loads(run_json(job["lesson"], job["code"], job["label"])) for job in jobs]
    for name, module in sys.modules.items():
        if name.partition(".")[0] in ("sim", "lessons", "app"):
            assert module.__file__.startswith(folder), f"{name} came from elsewhere"
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
