package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// image is what the name of an image means on this machine.
type image struct {
	Programs, Env, Appended map[string]string
}

// pull looks an image up in the file of --images, which a test may change; without the file any name will do.
func (n *node) pull(name string) (image, error) {
	var known struct {
		Away   bool // the registry does not answer: a node has only what it has pulled
		Images map[string]image
	}
	if n.o.images == "" {
		return image{}, nil
	}
	b, err := os.ReadFile(n.o.images)
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	bare, _, _ := strings.Cut(strings.TrimPrefix(name, "docker.io/"), "@") // the registry that runtimes assume
	failed := func(code, why string) (image, error) {
		return image{}, fmt.Errorf("rpc error: code = %s desc = failed to pull and unpack image %q: failed to resolve reference: %s", code, name, why)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range []string{name, bare, "*"} {
		if i, ok := known.Images[k]; ok && err == nil {
			if known.Away && !n.pulled[name] {
				return failed("Unavailable", "unexpected status from HEAD request: 503 Service Unavailable")
			}
			n.pulled[name] = true
			return i, nil
		}
	}
	return failed("NotFound", "not found")
}

// stamped writes whole lines with the time at which they came, as a container runtime keeps them.
type stamped struct {
	mu   sync.Mutex
	out  io.Writer
	rest []byte
}

func (s *stamped) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	for {
		i := strings.IndexByte(string(s.rest), '\n')
		if i < 0 {
			return len(b), nil
		}
		s.line(s.rest[:i+1])
		s.rest = s.rest[i+1:]
	}
}

func (s *stamped) line(b []byte) {
	fmt.Fprintf(s.out, "%s %s", time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z07:00"), b)
}

func (s *stamped) close() {
	if len(s.rest) > 0 {
		s.line(append(s.rest, '\n'))
	}
}

// order is one line of standard input: what happens to nodes and pods.
type order struct {
	Add, Lose, Reclaim, OOM, Pressure string // names of nodes, or namespace/name of pods
	GPUs                              int
	Labels                            map[string]string
	Taints                            []v1.Taint
	Seconds                           float64
}

// obey carries out the orders on standard input until its end, and answers each with a line.
func obey(in io.Reader, add func(order) error, nodes func() []*node) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		err := json.Unmarshal(lines.Bytes(), &o)
		if err == nil && o.Add != "" {
			err = add(o)
		} else if err == nil {
			err = errors.New("no such node or pod")
			for _, n := range nodes() {
				if n.suffers(o) {
					err = nil
				}
			}
		}
		why := ""
		if err != nil {
			why = err.Error()
		}
		answer, _ := json.Marshal(map[string]string{"error": why})
		fmt.Println(string(answer))
	}
}

// suffers applies an order to a node or one of its pods; false: it is about another.
func (n *node) suffers(o order) bool {
	switch n.name {
	case o.Lose:
		n.lose()
		return true
	case o.Reclaim: // of a spot machine: SIGTERM, and its end after the notice
		n.each("", func(r *podRun) {
			r.disrupted("Pod was terminated in response to imminent node shutdown.")
			r.signalLocked(syscall.SIGTERM)
		})
		time.AfterFunc(time.Duration(o.Seconds*float64(time.Second)), n.lose)
		return true
	}
	if o.OOM != "" {
		return n.each(o.OOM, func(r *podRun) { r.killed = "OOMKilled"; r.signalLocked(syscall.SIGKILL) })
	}
	return o.Pressure != "" && n.each(o.Pressure, func(r *podRun) {
		why := "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 9Mi. "
		r.disrupted(why)
		r.status.Reason, r.status.Message = "Evicted", why
		r.signalLocked(syscall.SIGKILL)
	})
}

// each does something to the pods of a node that run, or to one of them.
func (n *node) each(name string, do func(*podRun)) (found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.pods {
		if !r.ended && (name == "" || name == r.pod.Namespace+"/"+r.pod.Name) {
			r.mu.Lock()
			do(r)
			r.mu.Unlock()
			found = true
		}
	}
	return found
}

func (r *podRun) disrupted(why string) {
	r.status.Conditions = append(r.status.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: "TerminationByKubelet", Message: why, LastTransitionTime: metav1.Now()})
}

func (r *podRun) signalLocked(s syscall.Signal) {
	for _, p := range r.procs {
		syscall.Kill(-p.Pid, s)
	}
}

// lose is the failure of a machine: its processes are gone at once and report nothing. The taint is what a cloud
// sets when it knows that the machine is off, so that the control plane need not wait minutes for it.
func (n *node) lose() {
	n.cancel()
	n.stop()
	ctx := context.Background()
	status := `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown","message":"Kubelet stopped posting node status."}]}}`
	n.cs.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	taint := `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`
	n.cs.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, []byte(taint), metav1.PatchOptions{})
}
