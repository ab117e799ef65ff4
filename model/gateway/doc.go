// Package gateway is the agent's gateway to models, at http://model: it adds keys, passes
// bytes on, records, and enforces limits. A request for /PROVIDER/rest goes to that
// provider's base URL and rest, with the provider's key in place of whatever credentials
// came, and the answer goes back as it comes, byte for byte. Each request is recorded with
// its whole answer.
//
// Bytes are never encoded anew: a copy of them is read for what they say. Two things are
// kept from the agent: cookies, and a provider's secrets, which are blanked at their
// length wherever an answer holds them.
//
// It is no httputil.ReverseProxy, which does not say which side broke an answer off; the
// record of a request does.
//
// It asks nobody by itself: it follows no redirect and repeats nothing, since agents do
// that. It knows nothing of trials and where it is served.
package gateway
