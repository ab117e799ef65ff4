# One package from a Python index with all it needs, as the lock has it, in a
# virtual environment without pip. Wheels alone: they run no code when they are
# installed, and are the same bytes tomorrow.
#
# What network/ brings stays in the first stage, which is thrown away.

ARG BASE
FROM ${BASE} AS install
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args /network/
COPY requirements.txt program /server/
RUN . /network/env && . /network/args \
 && python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/server \
 && /pip/bin/pip --python /opt/server/bin/python install --require-hashes --no-deps --only-binary :all: \
      --no-cache-dir --disable-pip-version-check --no-input --progress-bar off -r /server/requirements.txt \
 && { test -x "/opt/server/bin/$(cat /server/program)" || { \
      echo "the package has no program $(cat /server/program); /opt/server/bin has: $(ls -m /opt/server/bin)" >&2; exit 1; }; } \
 && chmod -R a+rX /opt/server

FROM ${BASE}
LABEL waza.image=server
COPY --from=install /opt/server /opt/server
ENV PATH=/opt/server/bin:${PATH}
USER 0
