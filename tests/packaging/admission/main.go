// Applies the JSON patches of a MutatingAdmissionPolicy to a pod with the API server's own code: a policy's expressions,
// and the pod, as JSON on standard input; the pod that comes of it on standard output.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type asked struct {
	Expressions []string
	Pod         corev1.Pod
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	var input asked
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		log.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		log.Fatal(err)
	}
	compiler := must(cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true)))
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var pod runtime.Object = &input.Pod
	for _, expression := range input.Expressions {
		evaluator := compiler.CompileMutatingEvaluator(
			&patch.JSONPatchCondition{Expression: expression},
			cel.OptionalVariableDeclarations{StrictCost: true, HasPatchTypes: true},
			environment.StoredExpressions,
		)
		if errors := evaluator.CompilationErrors(); len(errors) > 0 {
			log.Fatal(errors)
		}
		attributes := admission.NewAttributesRecord(pod, nil, kind, input.Pod.Namespace, input.Pod.Name, resource,
			"", admission.Create, &metav1.CreateOptions{}, false, nil)
		pod = must(patch.NewJSONPatcher(evaluator).Patch(context.Background(), patch.Request{
			MatchedResource: resource,
			VersionedAttributes: &admission.VersionedAttributes{
				Attributes: attributes, VersionedKind: kind, VersionedObject: pod,
			},
			ObjectInterfaces:  admission.NewObjectInterfacesFromScheme(scheme),
			OptionalVariables: cel.OptionalVariableBindings{},
		}, celconfig.RuntimeCELCostBudget))
	}
	if err := json.NewEncoder(os.Stdout).Encode(pod); err != nil {
		log.Fatal(err)
	}
}
