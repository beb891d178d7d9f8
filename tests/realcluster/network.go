package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// podNetwork gives each pod a network namespace with the address that the API shows. A bridge,
// in a namespace of its own, joins them: the network of this machine does not change, and
// nothing is left of them when the program ends, however it ends. A pod reaches nothing outside
// but the API server and the ports of this machine's loopback that --host-ports names, each at
// the same port of its own loopback.
type podNetwork struct {
	host, bridge *os.File // the namespaces of this machine and of the bridge
	ports        []string
	mu           sync.Mutex
	count        int // of the bridge's links
}

func newPodNetwork(ports []string) (*podNetwork, error) {
	host, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	w := &podNetwork{host: host, ports: ports}
	w.bridge, err = w.namespace("link add pods type bridge", "link set pods up")
	return w, err
}

// within runs f on a thread in another network: sockets that it opens and processes that it
// starts stay there.
func (w *podNetwork) within(network *os.File, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
			must(unix.Setns(int(w.host.Fd()), unix.CLONE_NEWNET))
		}
		runtime.UnlockOSThread()
		result <- err
	}()
	return <-result
}

// namespace makes a network and sets it up with commands of ip(8).
func (w *podNetwork) namespace(commands ...string) (*os.File, error) {
	var made *os.File
	err := w.within(w.host, func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if made, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		ip := exec.Command("ip", "-batch", "-")
		ip.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		if said, err := ip.CombinedOutput(); err != nil {
			return fmt.Errorf("ip (Debian: iproute2): %w %s", err, said)
		}
		return nil
	})
	if err != nil && made != nil {
		made.Close()
	}
	return made, err
}

// join makes the network of a pod with an address of 198.18.0.0/16. Its listeners on loopback end
// with close, the network itself with the last process in it.
func (w *podNetwork) join(address string) (network *os.File, close func(), err error) {
	w.mu.Lock()
	w.count++
	link := fmt.Sprintf("pod%d", w.count)
	w.mu.Unlock()
	bridge := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), w.bridge.Fd())
	network, err = w.namespace("link set lo up",
		"link add eth0 type veth peer name "+link+" netns "+bridge,
		"addr add "+address+"/16 dev eth0", "link set eth0 up")
	if err != nil {
		return nil, nil, err
	}
	var listeners []net.Listener
	close = func() {
		for _, l := range listeners {
			l.Close()
		}
		network.Close()
	}
	err = w.within(w.bridge, func() error {
		return exec.Command("ip", "link", "set", link, "master", "pods", "up").Run()
	})
	for _, port := range w.ports {
		if err != nil {
			break
		}
		err = w.within(network, func() error {
			l, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err == nil {
				listeners = append(listeners, l)
				go forward(l, "127.0.0.1:"+port)
			}
			return err
		})
	}
	if err != nil {
		close()
		return nil, nil, err
	}
	return network, close, nil
}

// forward connects what a listener accepts to an address of this machine.
func forward(from net.Listener, to string) {
	for {
		one, err := from.Accept()
		if err != nil {
			return
		}
		go func() {
			defer one.Close()
			other, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer other.Close()
			go func() {
				io.Copy(other, one)
				other.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(one, other)
		}()
	}
}
