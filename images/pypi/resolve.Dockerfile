# What packages from a Python index come to: pip's report of what it would
# install. Nothing is installed; without sdists, no code of a package is run.

ARG BASE
FROM ${BASE} AS resolve
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args /network/
COPY requirements.txt constraints.txt /server/
RUN . /network/env && . /network/args \
 && python3 -m venv /pip \
 && /pip/bin/pip install --dry-run --ignore-installed --only-binary :all: --report /manifest.json --quiet \
      --no-cache-dir --disable-pip-version-check --no-input --progress-bar off \
      -c /server/constraints.txt -r /server/requirements.txt

FROM scratch
ARG RUN
LABEL waza.run=${RUN}
COPY --from=resolve /manifest.json /manifest.json
