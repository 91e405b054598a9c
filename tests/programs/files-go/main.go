// The file server of Go's net/http, at the listener that the system opens for it: files-go FOLDER.
// `./pen test servers.go` runs it.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
)

// inherited returns the first listener that the manifest names.
func inherited() (net.Listener, error) {
	first, err := strconv.Atoi(os.Getenv("LISTEN_FDS_FIRST"))
	if err != nil {
		return nil, err
	}
	// Go's programs have one thread here: a wait for a connection must not keep it.
	if err := syscall.SetNonblock(first, true); err != nil {
		return nil, err
	}
	return net.FileListener(os.NewFile(uintptr(first), "listener"))
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: files-go FOLDER")
	}
	listener, err := inherited()
	if err != nil {
		log.Fatal("no listener; the manifest must have listen = [\"tcp:PORT\"]: ", err)
	}
	log.Fatal(http.Serve(listener, http.FileServer(http.Dir(os.Args[1]))))
}
