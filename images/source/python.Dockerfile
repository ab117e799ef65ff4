# A Python project in a virtual environment, by uv where it has settings of uv or a uv.lock, else by
# pip from requirements.txt and pyproject.toml. MAIN is the project's directory, if not this one.
#
# What network/ brings stays in the first stage, which is thrown away.

ARG BASE
FROM ${BASE} AS install
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args install.sh start.py /network/
COPY source /opt/server
WORKDIR /opt/server
RUN . /network/env && . /network/args \
 && cd "${MAIN:-.}" \
 && sh -eu /network/install.sh \
 && /pip/bin/python /network/start.py >/opt/start && chmod 755 /opt/start \
 && chmod -R a+rX /opt/venv /opt/server

FROM ${BASE}
COPY --from=install /opt/start /opt/start
COPY --from=install /opt/venv /opt/venv
COPY --from=install /opt/server /opt/server
ENV PATH=/opt/venv/bin:${PATH}
WORKDIR /opt/server
ENTRYPOINT ["/opt/start"]
