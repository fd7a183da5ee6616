#include "mvm/audit/reader.h"

#include <thread>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "mvm/sys/io.h"

#include "sample.h"

namespace mvm::audit {
namespace {

TEST(AuditReader, StepsOverWhatIsNoRecordAndIntoTheNextFile) {
  const sys::TempDir folder;
  {
    Writer writer(session_in(folder.path()), {}, no_failure());
  }
  sys::write_all(sys::open_file(folder.path() + "/" + file_name(1), O_WRONLY | O_APPEND).get(),
                 as_bytes("garbage\n" + std::string(300'000, 'x')));
  Writer writer(session_in(folder.path()), {}, no_failure());
  append(writer, connect_to("a.example"));
  std::vector<uint64_t> seen;
  for_each_record(folder.path(),
                  [&](std::string_view, const Line& line) { seen.push_back(line.seq); });
  EXPECT_EQ(seen, (std::vector<uint64_t>{1, 2, 3}));
}

// Files of a few records, so that one often ends while it is read.
static void read_while_it_is_written() {
  const sys::TempDir folder;
  WriterOptions options;
  options.max_file = 2'000;
  Writer writer(session_in(folder.path()), options, no_failure());
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) append(writer, connect_to("a.example"));
    close(writer);
  });
  Reader reader(folder.path());
  uint64_t last = 0;
  bool closed = false;
  while (!closed) {
    while (const auto read = reader.next()) {
      EXPECT_EQ(read->line.seq, ++last);
      closed = read->line.kind == "close";
    }
    if (!closed) reader.wait();
  }
  other.join();
  EXPECT_EQ(last, writer.head().seq);
}

TEST(AuditReader, SeesWhatIsWrittenWhileItWaits) {
  for (int round = 0; round < 30; ++round) read_while_it_is_written();
}

}
}
