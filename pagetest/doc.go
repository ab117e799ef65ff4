// Package pagetest tests the HTML of waza in a browser: reports of real and synthetic runs,
// and the pages of its server.
package pagetest
