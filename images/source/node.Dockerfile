# A Node.js project by npm: what its lock has, its install scripts, and its script build. The
# image PACKAGES may have its packages already. MAIN is the project's directory, if not this one; npm
# finds the workspace that it belongs to.
#
# What network/ brings stays in the first two stages, which are thrown away; of it, scripts
# see the certificates alone. So does .npmrc, which may hold a token.

ARG BASE
ARG PACKAGES
FROM ${PACKAGES} AS fetch
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args fetch.sh /network/
COPY source /opt/server
WORKDIR /opt/server
RUN . /network/env && . /network/args && cd "${MAIN:-.}" && cd "$(npm prefix --no-update-notifier)" && { [ -e node_modules ] || . /network/fetch.sh; }

FROM ${BASE} AS install
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network/ca.pem args rebuild.js scripts.sh local.js start.js /network/
COPY --from=fetch /opt/server /opt/server
WORKDIR /opt/server
RUN if [ -s /network/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/network/ca.pem; fi \
 && . /network/args && cd "${MAIN:-.}" \
 && sh -eu /network/scripts.sh \
 && node /network/start.js >/opt/start && chmod 755 /opt/start \
 && chmod -R a+rX /opt/server

FROM ${BASE}
COPY --from=install /opt/start /opt/start
COPY --from=install /opt/server /opt/server
ENV PATH=/opt/server/node_modules/.bin:${PATH}
WORKDIR /opt/server
ENTRYPOINT ["/opt/start"]
