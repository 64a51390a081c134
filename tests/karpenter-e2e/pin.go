// Package e2e keeps the modules that Karpenter's end-to-end suites import in go.mod: nothing
// here is run, and without these imports `go mod tidy` drops what only the suites use.
package e2e

import (
	_ "sigs.k8s.io/karpenter/dra-kwok-driver/pkg/apis/v1alpha1"
	_ "sigs.k8s.io/karpenter/test/pkg/debug"
	_ "sigs.k8s.io/karpenter/test/pkg/environment/common"
)
