#pragma once
// Who waits for the builder, in the order they came: a file each in data/builder.queue, called by
// its number and locked while its process lives.

#include <string>

#include "mvm/store/paths.h"
#include "mvm/sys/fd.h"

namespace mvm::cli {

class Ticket {
 public:
  explicit Ticket(const store::Paths& paths);
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // Whether nobody who came before still waits.
  bool is_first() const;

 private:
  std::string directory_;
  std::string name_;
  sys::Fd lock_;
};

}
