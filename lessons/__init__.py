"""The course: thirteen lessons from the bytes of one token to vLLM's block manager.

sources/    reviewed text, one `.py` file a lesson (jupytext's percent format)
student/    notebooks with stubs to fill in        both made by `python -m lessons.build`,
teacher/    the same with solutions                committed executed
checks/     what the notebooks call to see whether a stub is right
browser/    lessons 1 to 4 as a page that runs Python in the browser
grade.py    a test of pytest for each check of a notebook that was handed in
"""
