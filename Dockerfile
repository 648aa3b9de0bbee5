# A coder in a container: a user without rights, on a file system that may be mounted read-only.
# With the desk and its drivers (plant serve); compose.yaml puts PostgreSQL beside it.
#
#   docker build -t plant .
#   docker run --rm --read-only --tmpfs /tmp -v /data:/data plant predict /data/coder /data/notes.jsonl --out /data/coded.jsonl
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/plant \
 && /opt/plant/bin/pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt '.[serve,postgres]'

FROM python:3.11-slim
RUN groupadd --system --gid 10001 plant && useradd --system --no-create-home --uid 10001 --gid 10001 plant
COPY --from=build /opt/plant /opt/plant
# kernels are compiled once here, so that a container that can write nothing need not compile them at each start
ENV PATH=/opt/plant/bin:$PATH NUMBA_CACHE_DIR=/opt/kernels PYTHONDONTWRITEBYTECODE=1
RUN mkdir /opt/kernels /tmp/warm \
 && python -c "from pathlib import Path; Path('/tmp/warm/n.csv').write_text('id,text,codes\n' + ''.join(f'{n},fever and cough {n},R05\n' for n in range(40)))" \
 && plant run /tmp/warm/n.csv --recipe tfidf --set prepare.min_count=1 --out /tmp/warm/run \
 && plant predict /tmp/warm/run/coder /tmp/warm/n.csv --out /tmp/warm/coded.jsonl \
 && rm -r /tmp/warm && chmod -R a+rX /opt/kernels
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["plant"]
CMD ["--help"]
