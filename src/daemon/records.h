#pragma once
// The sandboxes' rows in state.db: what the daemon knows after it was killed.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/state/database.h"

#include "environment.h"

namespace mvm::daemon {

struct Record {
  std::string id;
  api::SandboxSpec spec;  // with every default filled in
  // Its environment is sealed with a key that is not there any more: it cannot start again.
  bool environment_lost = false;
  std::string image_digest;
  std::string kernel;
  api::SandboxState state = api::SandboxState::Queued;
  int64_t pid = 0;             // of the sandbox process; 0: none was started
  uint64_t process_start = 0;  // tells it from a later process of that pid
  int64_t monitor_pid = 0;
  std::string created_at;
  std::string started_at;
  std::string ended_at;
  std::optional<api::End> end;

  const std::string& name() const { return spec.name; }
};

// Safe from any thread.
class Records {
 public:
  // The key of the environments is beside it, at `path`.key.
  explicit Records(const std::string& path);

  std::vector<Record> load();
  // Error{Conflict} when the name is taken: of two at once, exactly one gets it.
  void insert(const Record& record);
  void update(const Record& record);
  void remove(const std::string& id);

  void keep_repair(const api::Repair& repair);  // in place of the one before
  std::optional<api::Repair> last_repair();

 private:
  void seal_former();

  std::mutex mutex_;
  state::Database database_;
  EnvironmentSeal seal_;
};

// The same sentence wherever the name is found to be taken.
[[noreturn]] void refuse_taken_name(const std::string& name);

}
