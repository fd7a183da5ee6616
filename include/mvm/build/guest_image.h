#pragma once
// image.json, what mkGuest (nix/lib/mk-guest.nix) makes: where the root file system's skeleton is
// in the store, and what an image knows besides. It was written by whoever wrote the flake, and
// read from a sandbox: bounded, typed, and refused with a line that says which key.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/proto/health.h"

namespace mvm::build {

inline constexpr size_t kMaxGuestImage = size_t{1} << 20;  // bytes of image.json
inline constexpr size_t kMaxWords = 1024;                  // of an entrypoint
inline constexpr size_t kMaxNames = 256;                   // of env, of labels
inline constexpr int kGuestFormat = 1;

struct GuestImage {
  std::string name;
  std::string root;  // store path
  std::vector<std::string> entrypoint;
  std::map<std::string, std::string> env;
  std::string user;
  std::string workdir;
  std::optional<proto::HealthCheck> health;
  std::map<std::string, std::string> labels;
  std::vector<api::CaptureRequest::Attributes> attributes;
  std::string kernel;  // store path of a kernel bundle; empty: none
};

// Throws Error{Invalid}; a format that is newer is Error{Unsupported}.
GuestImage parse_guest_image(std::string_view json);

// "/nix/store/<32 of Nix's base 32>-<name>", nothing below it.
bool is_store_path(std::string_view path);

}
