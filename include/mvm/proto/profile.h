#pragma once
// What a sandbox may be asked to do, by its profile. Judged twice by the same code: in the sandbox
// process, which the guest cannot touch, and in the guest's agent, which answers whoever reaches
// it.
//
//   dev     everything.
//   sealed  runs one command, the first that it is given (of `mvm run`, or of the first `mvm
//   exec`),
//           and then takes no other. No file of it is read, written or listed by verbs of the
//           agent. What remains: ping, info, metrics, time, tcp, trust, shutdown.

#include <optional>
#include <string>
#include <string_view>

#include "mvm/proto/control.h"

namespace mvm::proto {

enum class Profile { Dev, Sealed };
std::string_view profile_name(Profile profile);
std::optional<Profile> profile_from_name(std::string_view name);

class ProfileGate {
 public:
  explicit ProfileGate(Profile profile) : profile_(profile) {}
  Profile profile() const { return profile_; }
  // Nothing when the verb is allowed, else Denied with the profile's name in it. To be asked once
  // for each request that is about to be carried out: it counts the commands.
  std::optional<ErrorReply> refuse(std::string_view verb);

 private:
  Profile profile_;
  bool command_taken_ = false;
};

}
