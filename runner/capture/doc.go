// Package capture reads what crossed the proxy: frames become calls, the tools
// that servers listed, and a list of what could not be seen.
//
// It is pure: frames in, values out. It understands both eras of the protocol,
// sessions opened by initialize and stateless requests with their rounds of
// input, and trusts neither side: keys count in their exact case, ids by their
// type and value, and a result never changes the request on record.
//
// It judges nothing and validates no arguments against their schemas.
package capture
