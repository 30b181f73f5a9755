// Command showcase serves the console in the situations that people meet it in,
// each below a path of its own, with made-up numbers that move: what its pages
// look like can be seen, and tested in a browser, without a fleet.
//
//	/full/      two LLMs, six endpoints, an hour of history, four bundles
//	/fallback/  the same with forecasts that are wrong, and bad endpoints
//	/hundred/   a hundred endpoints
//	/empty/     a router that has seen nothing and has no store
//	/away/      the store does not answer
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spillway-llm/spillway/router/console"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	flag.Parse()
	if err := serve(*listen); err != nil {
		fmt.Fprintln(os.Stderr, "showcase:", err)
		os.Exit(1)
	}
}

// serve prints where it serves, as its only line, and does so until it fails.
func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for name, s := range situations() {
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, console.New(s.config())))
		go s.move(context.Background())
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}
