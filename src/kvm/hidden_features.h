#pragma once
// What the guest does not get of the host's processor, each with its reason. KVM offers what it can
// virtualise; this is what a sandbox is better off without.

#include "mvm/kvm/kvm.h"

namespace mvm::kvm {

// Takes the hidden bits out of one entry of KVM's list.
void hide_features(CpuidEntry& entry) noexcept;

}
