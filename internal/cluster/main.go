// The command cluster runs Kubernetes for tests: an API server with its controllers, and
// two nodes, each a "machine" in its own namespaces on this host. It is built and run by
// scripts/cluster.
//
// It is only meant for tests: one administrator certificate serves all components, and
// there is no DNS and no service proxy.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const usage = `usage: scripts/cluster COMMAND
  up              start the cluster, unless it is up, and print its kubeconfig's path
  down            remove the cluster and everything that it left
  load IMAGE...   copy images of the Docker engine, or archives of docker save, to the nodes
  kubeconfig      print the kubeconfig's path
  kill MACHINE    end a machine (control, node1 or node2) as a power cut does
  kill MACHINE PROCESS
                  kill a process of a machine, such as kubelet or kube-apiserver; it is
                  started again a second later`

// components are the programs that machines run, all in one executable.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { awaitServer(); os.Exit(cli.Run(manager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { awaitServer(); os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubelet":                 func() { awaitServer(); os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) },
	"policy":                  func() { awaitServer(); fail(enforce(context.Background(), os.Args[1])) },
}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New(usage))
	}
	args := os.Args[2:]
	switch command := os.Args[1]; {
	case command == "up" && len(args) == 0:
		fail(up())
	case command == "down" && len(args) == 0:
		fail(down())
	case command == "load" && len(args) > 0:
		fail(load(args))
	case command == "kubeconfig" && len(args) == 0:
		fmt.Println(kubeconfig)
	case command == "kill" && (len(args) == 1 || len(args) == 2):
		fail(kill(args[0], args[1:]...))

	case command == "machine" && len(args) == 1:
		fail(runMachine(args[0]))
	case components[command] != nil:
		os.Args = os.Args[1:] // components expect their name as the first argument
		components[command]()
	default:
		fail(errors.New(usage))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}
