# One package from npm with all it needs, as the lock has it.
#
# What network/ brings stays in the first two stages, which are thrown away; of
# it, install scripts see the certificates alone. npm's own note of what it installed
# names the registry, and goes too.

ARG BASE
FROM ${BASE} AS fetch
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args /network/
WORKDIR /opt/server
COPY package.json package-lock.json ./
RUN . /network/env && . /network/args \
 && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error

FROM ${BASE} AS install
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network/ca.pem args rebuild.js /network/
COPY --from=fetch /opt/server /opt/server
WORKDIR /opt/server
RUN if [ -s /network/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/network/ca.pem; fi \
 && . /network/args \
 && node /network/rebuild.js \
 && rm -f node_modules/.package-lock.json \
 && chmod -R a+rX .

FROM ${BASE}
LABEL waza.image=server
COPY --from=install /opt/server /opt/server
ENV PATH=/opt/server/node_modules/.bin:${PATH}
USER 0
