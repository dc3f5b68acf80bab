"""Lessons 1 to 4 and the simulator as a page that needs no install: Python itself runs in the browser.

site.py        writes the folder: the page, and the Python that it runs as one archive
pack.py        that archive: the simulator, and what the cells import beside it
text.py        a lesson's cells as HTML
cells.py       runs a cell as a notebook would; goes into the archive, and needs the standard library alone
simulator.py   the cells of the part in which one plays with the simulator
page/          what the browser gets; in worker.js Python lives, and page.js is all that one sees
"""
