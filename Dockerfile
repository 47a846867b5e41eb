# The main job, the tests and every command, without a GPU: docs/how-to/reproduce.md says how to use it.
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends git libgomp1 make && rm -rf /var/lib/apt/lists/*
ENV PATH=/ol2r/.venv/bin:$PATH PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1
WORKDIR /ol2r
COPY . .
# uv chooses the build of torch without CUDA; the rest has the versions of requirements.lock.
RUN python -m venv .venv \
    && pip install uv \
    && uv pip install --torch-backend cpu --constraint constraints.txt torch \
    && make setup-locked
CMD ["make", "run"]
