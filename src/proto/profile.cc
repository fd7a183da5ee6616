#include "mvm/proto/profile.h"

#include <algorithm>
#include <array>

#include "mvm/proto/exec.h"
#include "mvm/proto/forward.h"
#include "mvm/proto/metrics.h"

namespace mvm::proto {

// What is not listed is refused: a new verb has to be let in by hand.
static constexpr std::array<std::string_view, 7> kSealedVerbs{
    kPingVerb, kInfoVerb, kMetricsVerb, kSyncTimeVerb, kTcpVerb, kTrustVerb, kShutdownVerb};

std::string_view profile_name(Profile profile) {
  return profile == Profile::Dev ? "dev" : "sealed";
}

std::optional<Profile> profile_from_name(std::string_view name) {
  for (const Profile profile : {Profile::Dev, Profile::Sealed})
    if (name == profile_name(profile)) return profile;
  return std::nullopt;
}

std::optional<ErrorReply> ProfileGate::refuse(std::string_view verb) {
  if (profile_ == Profile::Dev) return std::nullopt;
  if (verb == kExecVerb && !command_taken_) {
    command_taken_ = true;
    return std::nullopt;
  }
  if (std::find(kSealedVerbs.begin(), kSealedVerbs.end(), verb) != kSealedVerbs.end())
    return std::nullopt;
  const std::string profile = "the sandbox's profile 'sealed' refuses ";
  if (verb == kExecVerb)
    return ErrorReply{Kind::Denied,
                      profile + "a second command; start it with profile 'dev' to run more"};
  return ErrorReply{Kind::Denied, profile + "the verb '" + std::string(verb.substr(0, kMaxWord)) +
                                      "'; start it with profile 'dev' to allow it"};
}

}
