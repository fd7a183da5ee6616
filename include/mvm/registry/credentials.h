#pragma once
// Who we are to a registry, as Docker and Podman keep it: an auth file, or a helper program
// (docker-credential-NAME) that it names.
//
//   {"auths": {"HOST": {"auth": base64("user:password")}},
//    "credHelpers": {"HOST": "NAME"}, "credsStore": "NAME"}

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::registry {

struct Credentials {
  std::string user;
  std::string password;
};

// The files that are looked at, in order: $MVM_AUTH_FILE alone when it is set; else
// $REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json, $DOCKER_CONFIG/config.json and
// ~/.docker/config.json.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::vector<std::string> auth_files(const Environment& environment);

// What the first file that knows the host says; nothing when none does. Throws Error{Invalid} for a
// file that cannot be understood and Error{Unavailable} for a helper that fails.
std::optional<Credentials> find_credentials(const std::vector<std::string>& files,
                                            std::string_view host);

std::string base64(std::string_view text);
std::optional<std::string> base64_decode(std::string_view text);

}
