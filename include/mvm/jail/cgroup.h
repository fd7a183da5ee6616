#pragma once
// A cgroup (v2) for each sandbox, where the host lets us have them: it bounds what both processes
// of a sandbox take together, whatever they try.
//
// Root has a group of mvm's own at the top; anybody else has what was delegated to the daemon, such
// as by a systemd service with Delegate=yes. There the daemon moves into a group beside the
// sandboxes', since one that gives controllers to its children holds no process itself
// (Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint").

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "mvm/sys/fd.h"

namespace mvm::jail {

struct CgroupLimits {
  uint64_t processes = 0;  // pids.max: threads of both processes
  uint64_t memory = 0;     // memory.max, bytes
  uint64_t cpu_weight = 100;
};

class Cgroups {
 public:
  Cgroups() = default;  // none
  Cgroups(std::string base, std::string missing, std::string way_out)
      : base_(std::move(base)), missing_(std::move(missing)), way_out_(std::move(way_out)) {}
  // The calling process's way to make groups: finds and prepares the group above them. What cannot
  // be had is in missing(), with a way out.
  static Cgroups find();
  // Only looks: what find() would say of a daemon started by this process.
  static Cgroups look();

  bool available() const { return !base_.empty(); }
  const std::string& missing() const { return missing_; }
  const std::string& way_out() const { return way_out_; }

  // Makes the sandbox's group (anew, when one of that id is left over), sets its limits, and opens
  // it for a process to be started in. Nothing when there are none to be had. Throws Error.
  sys::Fd make(std::string_view id, const CgroupLimits& limits) const;
  // Ends whatever is left in it and removes it; absent is fine.
  void remove(std::string_view id) const noexcept;
  // Removes the groups of sandboxes not in `known` that hold no process: a daemon was killed
  // between a sandbox's end and the removal of its group.
  void remove_orphans(const std::set<std::string>& known) const;

 private:
  std::string path_of(std::string_view id) const;
  std::string base_;
  std::string missing_;
  std::string way_out_;
};

}
