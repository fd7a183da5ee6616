#pragma once
// Replaces for good what is found in a stream of text, as of a command's output. What is held back
// is the unfinished word at the end of what came (scanner.h).

#include <string>
#include <string_view>

#include "mvm/protect/scanner.h"

namespace mvm::protect {

class Redactor {
 public:
  explicit Redactor(ClassSet classes = ClassSet::all()) : scanner_(classes) {}

  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  Scanner scanner_;
};

}
