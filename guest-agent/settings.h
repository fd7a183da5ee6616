#pragma once
// What the host tells PID 1, on the kernel's command line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/base/ip.h"
#include "mvm/proto/frame.h"
#include "mvm/proto/profile.h"

namespace mvm::guest {

inline constexpr size_t kMaxCommandLine = size_t{64} * 1024;

// An address of the sandbox's on its network card, and the way out of it.
struct CardAddress {
  IpAddress address;
  unsigned length = 0;  // of the link's prefix
  IpAddress gateway;
  bool operator==(const CardAddress&) const = default;
};

// A disk that outlives the sandbox, and where it belongs.
struct KeptDisk {
  std::string device;
  std::string path;  // absolute
  bool operator==(const KeptDisk&) const = default;
};

struct Settings {
  std::string root;              // mvm.root=/dev/vda: read-only; erofs or ext4
  std::string overlay;           // mvm.overlay=/dev/vdb: ext4, writable; none: tmpfs
  std::string overlay_size;      // mvm.overlay_size=256M: bound of the tmpfs, as tmpfs(5) reads it
  std::optional<KeptDisk> kept;  // mvm.kept=/dev/vdc,/nix; none: no such disk
  std::string hostname = "sandbox";              // mvm.hostname=
  uint32_t port = proto::kAgentPort;             // mvm.port=
  proto::Profile profile = proto::Profile::Dev;  // mvm.profile=sealed
  std::optional<CardAddress> ip4;  // mvm.ip4=100.127.255.2/30,100.127.255.1; none: no network card
  std::optional<CardAddress> ip6;  // mvm.ip6=
  bool verbose = false;            // mvm.log=debug: a line on the console for each step
};

// Later values win; what is not ours is the kernel's.
Settings parse_settings(std::string_view command_line);

}
