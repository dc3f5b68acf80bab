# Two commands are all a newcomer needs: `make demo` and `make test`. Both make their own `.venv`.
PYTHON ?= python3
BIN := .venv/bin
TORCH := torch==2.13.0
TRITON := triton==3.7.1

.PHONY: demo test test-peers check format clean

demo: .venv/ready  ## simulate and really execute one trace under four allocators; writes out/demo/report.html
	$(BIN)/pagelab compare demo --pool-tokens 4096 --max-len 512 --out out/demo

test: .venv/ready-dev  ## run all tests
	$(BIN)/python -m pytest -n auto --dist loadfile

test-peers: .venv/ready-dev  ## vLLM's own scheduler as the referee: make test-peers PAGELAB_VLLM_PYTHON=/path/to/bin/python
	PAGELAB_VLLM_PYTHON=$(PAGELAB_VLLM_PYTHON) $(BIN)/python -m pytest -s tests/peers

check: .venv/ready-dev  ## lint, format, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright -p pyproject.toml

format: .venv/ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .hypothesis

# A machine with an NVIDIA driver takes PyPI's torch with its CUDA libraries. Any other takes the CPU
# build: from wherever pip finds one, or else from PyTorch's own index, which uv knows by name.
.venv/torch:
	$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"PageLab needs Python 3.11 or newer; this is {v.major}.{v.minor}: make PYTHON=python3.12 demo")'
	$(PYTHON) -m venv .venv
	@if command -v nvidia-smi >/dev/null 2>&1; then \
		$(BIN)/pip install -q $(TORCH); \
	elif [ "$$(uname -s)" = Linux ]; then \
		$(BIN)/pip install -q '$(TORCH)+cpu' 2>/dev/null || \
		{ $(BIN)/pip install -q uv && $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend cpu $(TORCH); } || \
		$(BIN)/pip install -q $(TORCH); \
	else \
		$(BIN)/pip install -q $(TORCH); \
	fi
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then $(BIN)/pip install -q $(TRITON); fi
	@touch $@

.venv/ready: .venv/torch pyproject.toml
	$(BIN)/pip install -q -e .
	@touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@
