# The packages of a Node.js project by npm, for node.Dockerfile.
#
# What network/ brings stays in the first stage, which is thrown away.

ARG BASE
FROM ${BASE} AS fetch
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args fetch.sh /network/
COPY source /opt/server
WORKDIR /opt/server
RUN . /network/env && . /network/args && . /network/fetch.sh && mkdir -p node_modules

FROM ${BASE}
COPY --from=fetch /opt/server/node_modules /opt/server/node_modules
