# The program of a Go module. Building it runs no code of the module's.

ARG BASE
FROM ${BASE} AS build
ARG RUN
LABEL waza.run=${RUN}
USER 0
COPY network /network
COPY args build.sh /network/
COPY source /opt/server
WORKDIR /opt/server
RUN . /network/env && . /network/args \
 && mkdir -p /etc/ssl/certs \
 && sh -eu /network/build.sh \
 && chmod -R a+rX /opt/server

FROM scratch
COPY --from=build /etc/ssl/certs /etc/ssl/certs
COPY --from=build /opt/start /opt/start
COPY --from=build /opt/server /opt/server
WORKDIR /opt/server
ENTRYPOINT ["/opt/start"]
