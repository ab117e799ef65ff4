# An agent from npm with all it needs, as the lock has it, and completed by its setup.
#
# What network/ brings stays in the first two stages, which are thrown away; of it,
# install scripts and the setup see the certificates alone. npm's own note of what it
# installed names the registry, and goes too. Some agents start only where there are
# roots of trust; where the base has none they get those of Node.js.

ARG BASE
FROM ${BASE} AS fetch
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
WORKDIR /opt/agent
COPY package.json package-lock.json ./
RUN . /network/env \
 && npm ci --omit=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error

FROM ${BASE} AS install
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network/ca.pem /network/ca.pem
COPY rebuild setup /network/
COPY --from=fetch /opt/agent /opt/agent
WORKDIR /opt/agent
ENV PATH=/opt/agent/bin:/opt/agent/node_modules/.bin:${PATH}
RUN mkdir -p /etc/ssl/certs && cd /etc/ssl/certs \
 && { [ -s ca-certificates.crt ] || node -p 'require("tls").rootCertificates.join("\n")' >ca-certificates.crt; }
RUN if [ -s /network/ca.pem ]; then export NODE_EXTRA_CA_CERTS=/network/ca.pem; fi \
 && sh -eu /network/rebuild \
 && sh -eu /network/setup \
 && rm -f node_modules/.package-lock.json \
 && chmod -R a+rX .

FROM ${BASE}
LABEL waza.image=agent
COPY --from=install /etc/ssl/certs /etc/ssl/certs
COPY --from=install /opt/agent /opt/agent
ENV PATH=/opt/agent/bin:/opt/agent/node_modules/.bin:${PATH}
USER 0
