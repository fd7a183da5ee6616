#pragma once
// The sandbox's audit log, as its own process writes it: decisions about its traffic, and commands
// by the id of their run. What cannot be recorded must not happen: whoever records looks at the
// answer.

#include <functional>
#include <optional>
#include <string>

#include "mvm/audit/writer.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/sandbox_config.h"

namespace mvm::sandbox {

class AuditTrail {
 public:
  // `on_change` is called in a turn of the loop: with the reason when nothing can be recorded any
  // more, and with nothing when it can again. While it cannot, no flow may be admitted.
  using OnChange = std::function<void(const std::optional<audit::Failure>&)>;
  // The key in `config` is wiped. `directory` and `file` are of SandboxFd.
  AuditTrail(loop::Loop& loop, const std::string& id, proto::AuditConfig& config, sys::Fd directory,
             sys::Fd file, OnChange on_change);

  // The directory that its next files are made in.
  int directory() const { return directory_; }
  // Starts the thread that brings records to the disk, confined. Between stages 3 and 4 of the
  // jail.
  void start();

  // False: it is not recorded. With audit.sync = "strict" it waits for the disk.
  [[nodiscard]] bool record(const audit::Event& event);
  // Several in one write: they are put down by commit(), or with what is recorded next.
  void defer(audit::Event event, audit::Writer::Of of) { writer_.defer(std::move(event), of); }
  // False: of what may still be refused something is not recorded.
  [[nodiscard]] bool commit(audit::Writer::Of of);
  // Of what has happened already: where it cannot be recorded it waits until it can be. False: it
  // is not recorded yet.
  bool note(const audit::Event& event) { return writer_.note(event); }
  // A command's run has ended; nothing: without a result.
  void record_end(const std::string& run, const std::optional<proto::ExecResult>& result);
  // Why record() says no.
  const std::string& why() const { return why_; }
  void close();

 private:
  void changed(const std::optional<audit::Failure>& failure);
  void retry_later();

  loop::Loop* loop_;
  int directory_;
  OnChange on_change_;
  std::string why_;
  loop::Watch retry_;
  audit::Writer writer_;
};

}
