#pragma once
// What each command takes and how it is used, for the table of commands.cc.

#include <array>
#include <string_view>

#include "mvm/cli/command.h"

#include "build_flags.h"
#include "shared_flags.h"

namespace mvm::cli {

// ---- init, up

inline constexpr std::array kInitPositionals = {
    Positional{"NAME", "Name of the sandbox. Default: the folder's name.", false}};
inline constexpr std::array kInitOptions = {
    Option{0, "image", "", "IMAGE", "Image to name in the file. Default: base.", false, false,
           Offer::Images},
    Option{0, "force", "", "", "Replace an existing file."},
};
inline constexpr std::array<std::string_view, 2> kInitExamples = {"mvm init",
                                                                  "mvm init agent-sandbox"};

inline constexpr std::array kUpPositionals = {
    Positional{"NAME", "Name of the sandbox. Default: the manifest's, else the folder's.", false,
               false, Offer::Sandboxes}};
inline constexpr auto kUpOptions =
    joined(std::array{kManifest, kFlake}, kMachine, kNetwork, std::array{kPublish}, kSecrets, kLife,
           kPlace,
           std::array{Option{0, "rm", "", "", "Remove it, with all it wrote, when it ends."}, kName,
                      kQuiet, kJson});
inline constexpr std::array<std::string_view, 8> kUpExamples = {
    "mvm up",
    "mvm up agent-sandbox",
    "mvm up agent-sandbox --flake .#agent",
    "mvm up agent-sandbox --image python --cpus 2 -m 1G",
    "mvm up agent-sandbox --allow-host example.com --network-preset registries",
    "mvm up agent-sandbox -p 8080:80",
    "mvm up agent-sandbox --allow-host api.example.com --secret API_KEY@api.example.com",
    "mvm up -f box.toml --json"};

// ---- commands in a sandbox

inline constexpr std::array kRunPositionals = {
    Positional{"IMAGE", "Image to start from.", true, false, Offer::Images}};
inline constexpr auto kRunMachine = [] {
  std::array<Option, kMachine.size() - 1> out{};  // the image is the argument
  for (size_t i = 0; i < out.size(); ++i) out.at(i) = kMachine.at(i + 1);
  return out;
}();
inline constexpr auto kRunOptions = joined(
    kStreams, kLimits, kPlace, kRunMachine, kNetwork, std::array{kPublish}, kSecrets,
    std::array{Option{0, "name", "", "NAME", "Name of the sandbox. Default: one is made up."},
               Option{0, "rm", "", "", "Accepted; the sandbox is always removed."}, kQuiet, kJson});
inline constexpr std::array<std::string_view, 3> kRunExamples = {
    "mvm run base -- python3 -c 'print(6 * 7)'", "mvm run base -it -- bash",
    "mvm run base --timeout 30s --json -- sh -c 'uname -a; id'"};

inline constexpr std::array kNamePositional = {
    Positional{"NAME", "The sandbox.", true, false, Offer::Sandboxes}};
inline constexpr auto kExecOptions =
    joined(kStreams, kLimits,
           std::array{Option{'d', "detach", "", "",
                             "Start the command and do not wait; its output is dropped."}},
           kPlace, std::array{kName, kJson});
inline constexpr std::array<std::string_view, 7> kExecExamples = {
    "mvm exec agent-sandbox -- python3 /work/agent.py",
    "mvm exec -it agent-sandbox bash",
    "mvm exec --redact agent-sandbox -- cat /work/customers.csv",
    "mvm exec -i agent-sandbox -- tar -xf - -C /work <work.tar",
    "mvm exec agent-sandbox --timeout 30s -e DEBUG=1 -w /work -- make test",
    "mvm exec agent-sandbox --rlimit nofile=1024:2048 --memory-limit 256M -- ./build.sh",
    "mvm exec agent-sandbox --json -- id"};

inline constexpr auto kShellOptions = joined(kPlace, std::array{kName});
inline constexpr std::array<std::string_view, 2> kShellExamples = {
    "mvm shell agent-sandbox", "mvm shell agent-sandbox -u nobody"};

inline constexpr std::array kConsoleOptions = {
    Option{'q', "quiet", "", "", "No words beside the console's."}, kName};
inline constexpr std::array<std::string_view, 2> kConsoleExamples = {
    "mvm console agent-sandbox", "mvm console agent-sandbox </dev/null"};

inline constexpr std::array kCopyPositionals = {
    Positional{"SOURCE", "What to copy: a path here, or NAME:/path.", true, false, Offer::Files},
    Positional{"TARGET", "Where to: the other of the two.", true, false, Offer::Files}};
inline constexpr std::array kCopyOptions = {
    Option{'p', "parents", "", "", "Make missing folders above the target in the sandbox."},
    Option{'L', "follow-link", "", "", "Copy what a symbolic link in the sandbox points to."},
    Option{'u', "user", "", "USER", "Owner of what is written in the sandbox. Default: root."},
    kQuiet,
    kJson,
};
inline constexpr std::array<std::string_view, 3> kCopyExamples = {
    "mvm cp agent.py agent-sandbox:/work/", "mvm cp agent-sandbox:/work/out ./out",
    "mvm cp -p data agent-sandbox:/srv/input/data"};

// ---- files of a sandbox

inline constexpr Positional kPlacePositional{"NAME:PATH",
                                             "The sandbox and an absolute path in it."};
inline constexpr std::array kPlacePositionals = {kPlacePositional};
inline constexpr Option kRoot{
    0, "root", "", "DIR",
    "Take PATH relative to this folder of the sandbox, and refuse it when "
    "anything on the way (.., a link, a mount) leads out of there."};
inline constexpr Option kMode{0, "mode", "", "MODE", "Permissions, octal."};
inline constexpr Option kOwner{'u', "user", "", "USER", "Owner of what is made. Default: root."};

inline constexpr std::array kReadOptions = {
    Option{0, "offset", "", "SIZE", "Start there, such as 4096 or 4G. Default: 0."},
    Option{0, "length", "", "SIZE", "Read at most so much. Default: to the end."},
    Option{0, "redact", "", "", "Replace personal data and keys by [redacted]."}, kRoot};
inline constexpr std::array<std::string_view, 3> kReadExamples = {
    "mvm fs read agent-sandbox:/etc/os-release",
    "mvm fs read agent-sandbox:/var/log/app.log --offset 1M --length 64K",
    "mvm fs read --redact agent-sandbox:/work/customers.csv"};
inline constexpr std::array kWriteOptions = {
    Option{0, "offset", "", "SIZE", "Write into the file itself from there on."},
    Option{'a', "append", "", "", "Write to the end of the file itself."},
    Option{0, "new", "", "", "It is an error when the file exists."},
    Option{0, "limit", "", "SIZE", "It is an error when there is more than this."},
    Option{0, "sync", "", "", "Return when it is on the sandbox's disk."},
    kMode,
    kOwner,
    kRoot,
    kJson};
inline constexpr std::array<std::string_view, 3> kWriteExamples = {
    "mvm fs write agent-sandbox:/work/task.json <task.json",
    "mvm fs write agent-sandbox:/work/run.sh --mode 0755 <run.sh",
    "echo done | mvm fs write agent-sandbox:notes.txt --root /work --append"};
inline constexpr std::array kStatOptions = {
    Option{'L', "follow-link", "", "", "Look at what a symbolic link points to."}, kRoot, kJson};
inline constexpr std::array<std::string_view, 1> kStatExamples = {
    "mvm fs stat agent-sandbox:/etc/passwd --json"};
inline constexpr std::array kFileListOptions = {
    Option{'l', "long", "", "", "Type, mode, owner, size and time as well."},
    Option{0, "limit", "", "N", "At most so many entries."}, kRoot, kJson};
inline constexpr std::array<std::string_view, 2> kFileListExamples = {
    "mvm fs ls agent-sandbox:/work -l", "mvm fs ls agent-sandbox:/work --limit 100 --json"};
inline constexpr std::array kMakeDirectoryOptions = {
    Option{'p', "parents", "", "",
           "Make missing folders above it too; an existing one is no error."},
    kMode, kOwner, kRoot};
inline constexpr std::array<std::string_view, 1> kMakeDirectoryExamples = {
    "mvm fs mkdir -p agent-sandbox:/work/out/today"};
inline constexpr std::array kMovePositionals = {
    kPlacePositional, Positional{"TO", "The new path in the same sandbox."}};
inline constexpr std::array kMoveOptions = {
    Option{'n', "no-replace", "", "", "It is an error when TO exists."}, kRoot};
inline constexpr std::array<std::string_view, 1> kMoveExamples = {
    "mvm fs mv agent-sandbox:/work/new /work/current"};
inline constexpr std::array kFileRemoveOptions = {
    Option{'r', "recursive", "", "",
           "A folder with all in it; other file systems are not entered."},
    kRoot, kJson};
inline constexpr std::array<std::string_view, 1> kFileRemoveExamples = {
    "mvm fs rm -r agent-sandbox:/work/out"};
inline constexpr std::array kWatchOptions = {
    Option{0, "count", "", "N", "End after so many events."}, kRoot,
    Option{0, "json", "", "", "Print each event as a JSON document on a line of its own."}};
inline constexpr std::array<std::string_view, 2> kWatchExamples = {
    "mvm fs watch agent-sandbox:/work", "mvm fs watch agent-sandbox:/work/out --count 1 --json"};

inline constexpr std::array kLogsOptions = {
    Option{'f', "follow", "", "", "Go on until the sandbox ends."},
    Option{0, "egress", "", "", "What it wanted of the network, and what became of that."}, kName};
inline constexpr std::array<std::string_view, 3> kLogsExamples = {
    "mvm logs agent-sandbox", "mvm logs -f agent-sandbox", "mvm logs agent-sandbox --egress -f"};

// ---- sandboxes

inline constexpr std::array kPsOptions = {
    Option{'a', "all", "", "", "Ended ones too."},
    Option{'q', "quiet", "", "", "Names only."},
    Option{0, "label", "", "KEY[=VALUE]", "Only those with this label.", true},
    kJson,
};
inline constexpr std::array<std::string_view, 3> kPsExamples = {
    "mvm ps", "mvm ps -a --label team=search", "mvm ps --json"};

inline constexpr Option kJsonLine{0, "json", "", "", "Print it on one line."};
inline constexpr std::array kInspectOptions = {kName, kJsonLine};
inline constexpr std::array kImageInspectOptions = {kJsonLine};
inline constexpr std::array kStatsOptions = {kName, kJson};
inline constexpr std::array kPortPositionals = {
    Positional{"NAME", "The sandbox.", true, false, Offer::Sandboxes},
    Positional{"PORT",
               "[ADDRESS:]HOST:GUEST, a port of this host and one of the sandbox; may be several. "
               "HOST 0 is one that is free.",
               false, true}};
inline constexpr std::array kPortOptions = {
    Option{0, "remove", "", "[ADDRESS:]HOST",
           "Take this port back; connections that are open go on. May be given many times.", true},
    kQuiet, kJson};
inline constexpr std::array<std::string_view, 5> kPortExamples = {
    "mvm port agent-sandbox", "mvm port agent-sandbox 8080:80",
    "mvm port agent-sandbox 0:3000 --json", "mvm port agent-sandbox 192.0.2.1:8443:443",
    "mvm port agent-sandbox --remove 8080"};
inline constexpr std::array kMcpOptions = {
    Option{0, "redact", "", "",
           "Replace personal data and keys in output and files by [redacted], whatever the "
           "sandbox's own protection is."},
    Option{0, "no-redact", "", "", "Never do so."}, kName};
inline constexpr std::array<std::string_view, 2> kMcpExamples = {"mvm mcp agent-sandbox",
                                                                 "mvm mcp agent-sandbox --redact"};
inline constexpr std::array<std::string_view, 2> kStatsExamples = {
    "mvm stats agent-sandbox", "mvm stats agent-sandbox --json"};
inline constexpr std::array<std::string_view, 1> kInspectExamples = {"mvm inspect agent-sandbox"};

inline constexpr std::array kNamesPositional = {
    Positional{"NAME", "The sandbox; may be several.", true, true, Offer::Sandboxes}};
inline constexpr std::array kDownOptions = {
    Option{0, "grace", "", "DURATION", "How long it may take to end by itself. Default: 10s."},
    Option{0, "kill", "", "", "Do not ask it, end it at once."},
    Option{0, "rm", "", "", "Remove it, with all it wrote, as well."},
    kName,
    kQuiet,
    kJson,
};
inline constexpr std::array<std::string_view, 3> kDownExamples = {
    "mvm down agent-sandbox", "mvm down agent-sandbox --rm", "mvm down a b c --grace 2s"};

inline constexpr std::array kRemoveOptions = {
    Option{'f', "force", "", "", "End it first when it runs; no error when there is none."},
    kName,
    kQuiet,
};
inline constexpr std::array<std::string_view, 2> kRemoveExamples = {"mvm rm agent-sandbox",
                                                                    "mvm rm -f agent-sandbox"};

// ---- images

inline constexpr Option kPlatform{0, "platform", "", "OS/ARCH",
                                  "OCI: the image for this platform. Default: the host's."};
inline constexpr Option kDropSetId{0, "drop-setid", "", "",
                                   "Archives: files lose their set-user-ID and set-group-ID bits."};
inline constexpr std::array kImportPositionals = {
    Positional{"SOURCE",
               "A folder or a tar archive with a root file system, or an OCI image: a layout, an "
               "archive of one, or what docker save wrote.",
               true, false, Offer::Files},
    Positional{"NAME", "Name of the image. Default: made from the source's name.", false}};
inline constexpr std::array kImportOptions = {
    Option{0, "name", "", "NAME", "Name of the image, instead of the argument."},
    Option{0, "ref", "", "NAME", "OCI: the image of this name or tag, where there are several."},
    kPlatform,
    kDropSetId,
    kQuiet,
    kJson};
inline constexpr std::array<std::string_view, 3> kImportExamples = {
    "mvm image import ./rootfs base", "mvm image import rootfs.tar.gz",
    "docker save app:v1 >app.tar && mvm image import app.tar app:v1"};
inline constexpr std::array kPullPositionals = {
    Positional{"IMAGE", "[HOST/]PATH[:TAG][@sha256:DIGEST]; without a host it is docker.io's."}};
inline constexpr std::array kPullOptions = {
    Option{0, "name", "", "NAME",
           "Name of the image. Default: as it was asked for, with its host."},
    kPlatform, kDropSetId, kQuiet, kJson};
inline constexpr std::array<std::string_view, 3> kPullExamples = {
    "mvm image pull python:3.12", "mvm image pull ghcr.io/org/app:v1 --name app",
    "mvm image pull localhost:5000/app@sha256:0123…"};
inline constexpr std::array kTagPositionals = {
    Positional{"IMAGE", "Name or digest.", true, false, Offer::Images},
    Positional{"NAME", "Another name for it."}};
inline constexpr std::array<std::string_view, 1> kTagExamples = {"mvm image tag python:3.12 base"};
inline constexpr std::array kVerifyOptions = {kQuiet};
inline constexpr std::array<std::string_view, 1> kVerifyExamples = {"mvm image verify base"};
inline constexpr std::array kExportPositionals = {
    Positional{"IMAGE", "Name or digest.", true, false, Offer::Images},
    Positional{"FILE", "Where to; - is standard output. With --format oci a folder.", true, false,
               Offer::Files}};
inline constexpr std::array kExportOptions = {
    Option{0, "format", "", "tar|oci-archive|oci",
           "What is written. Default: oci for a FILE that ends in '/', else oci-archive."},
    Option{0, "compress", "", "none|gzip|zstd",
           "How the tar archive or the layer is packed. Default: gzip, for tar by the ending of "
           "FILE (.gz, .tgz, .zst)."},
    Option{'f', "force", "", "", "Replace a file that is there."}, kQuiet};
inline constexpr std::array<std::string_view, 4> kExportExamples = {
    "mvm image export base base.tar", "mvm image export --format tar base root.tar.zst",
    "mvm image export web layout/", "mvm image export --format tar base - | ssh host tar -x"};
inline constexpr std::array kPruneOptions = {
    Option{'a', "all", "", "", "Also images that have a name."},
    Option{0, "dry-run", "", "", "Only say what would go."}, kJson};
inline constexpr std::array<std::string_view, 2> kPruneExamples = {"mvm image prune --dry-run",
                                                                   "mvm image prune --all"};
inline constexpr std::array kImagePositional = {
    Positional{"IMAGE", "Name or digest.", true, false, Offer::Images}};
inline constexpr std::array kImagesPositional = {
    Positional{"IMAGE", "Name or digest; may be several.", true, true, Offer::Images}};
inline constexpr std::array kImageListOptions = {Option{'q', "quiet", "", "", "Names only."},
                                                 kJson};
inline constexpr std::array<std::string_view, 1> kImageListExamples = {"mvm image ls"};
inline constexpr std::array<std::string_view, 1> kImageInspectExamples = {"mvm image inspect base"};
inline constexpr std::array kImageRemoveOptions = {
    Option{'f', "force", "", "", "Also when stopped sandboxes were made from it."}, kQuiet};
inline constexpr std::array<std::string_view, 1> kImageRemoveExamples = {"mvm image rm base"};

inline constexpr std::array kKernelSource = {
    Positional{"SOURCE", "A folder with bundle.json, the kernel's image and its modules.", true,
               false, Offer::Files}};
inline constexpr std::array kKernelImportOptions = {
    Option{0, "default", "", "", "Make it the kernel of sandboxes that name none."}, kQuiet, kJson};
inline constexpr std::array<std::string_view, 1> kKernelImportExamples = {
    "mvm kernel import ./tuned-6.1 --default"};
inline constexpr std::array<std::string_view, 1> kKernelListExamples = {"mvm kernel ls"};
inline constexpr std::array kKernelsPositional = {
    Positional{"KERNEL", "Name; may be several.", true, true}};
inline constexpr std::array kKernelRemoveOptions = {
    Option{'f', "force", "", "", "Also when sandboxes were made with it."}, kQuiet};
inline constexpr std::array<std::string_view, 1> kKernelRemoveExamples = {
    "mvm kernel rm tuned-6.1"};

// ---- audit

inline constexpr std::array kAuditPositional = {
    Positional{"NAME", "The sandbox, by name or id. Default: the daemon's own log.", false, false,
               Offer::Sandboxes}};
inline constexpr std::array kAuditAllPositional = {
    Positional{"NAME", "The sandbox, by name or id, or 'daemon'. Default: all logs.", false, false,
               Offer::Sandboxes}};
inline constexpr Option kAuditLines{0, "json", "", "",
                                    "Print the records as they are, one a line."};
inline constexpr Option kAuditKinds{
    0,   "kind", "", "KIND", "Only records of this kind, such as connect. May be given many times.",
    true};
inline constexpr std::array kAuditTailOptions = {
    Option{'f', "follow", "", "", "Go on until the log is closed."},
    Option{'n', "lines", "", "N", "So many of the last records first. Default: 20."}, kAuditKinds,
    kAuditLines};
inline constexpr std::array<std::string_view, 3> kAuditTailExamples = {
    "mvm audit tail", "mvm audit tail -f agent-sandbox", "mvm audit tail -n 100 --kind http web"};
inline constexpr std::array kAuditShowOptions = {kAuditKinds, kAuditLines};
inline constexpr std::array<std::string_view, 2> kAuditShowExamples = {
    "mvm audit show agent-sandbox", "mvm audit show --kind created --kind ended --json"};
inline constexpr std::array kAuditVerifyOptions = {
    Option{0, "key", "", "FILE", "The daemon's public key (PEM). Default: this host's.", false,
           false, Offer::Files},
    Option{0, "file", "", "FILE", "Check what `mvm audit export` wrote.", false, false,
           Offer::Files},
    kJson};
inline constexpr std::array<std::string_view, 3> kAuditVerifyExamples = {
    "mvm audit verify", "mvm audit verify agent-sandbox --json",
    "mvm audit verify --file web.jsonl --key host.pub"};
inline constexpr std::array kAuditExportOptions = {
    Option{0, "public-key", "", "", "Print the daemon's public key (PEM) instead."}};
inline constexpr std::array<std::string_view, 2> kAuditExportExamples = {
    "mvm audit export agent-sandbox >web.jsonl", "mvm audit export --public-key >host.pub"};
inline constexpr std::array kAuditRun = {
    Positional{"RUN", "Id of a command's run, as `mvm exec --json` prints it."}};
inline constexpr std::array kAuditWhyOptions = {kAuditLines};
inline constexpr std::array<std::string_view, 1> kAuditWhyExamples = {
    "mvm audit why run-4mzyx2kq5tda"};

// ---- secrets

inline constexpr std::array kSecretPositional = {
    Positional{"NAME", "The variable that a sandbox finds it in, such as GITHUB_TOKEN."}};
inline constexpr std::array kSecretsPositional = {
    Positional{"NAME", "The secret; may be several.", true, true}};
inline constexpr std::array kSecretSetOptions = {
    Option{0, "from", "", "REFERENCE",
           "Keep where the value is instead of the value: env:NAME, file:PATH, keyring:NAME or "
           "cmd:COMMAND."},
    kQuiet};
inline constexpr std::array<std::string_view, 3> kSecretSetExamples = {
    "mvm secret set OPENAI_API_KEY", "mvm secret set GITHUB_TOKEN <token.txt",
    "mvm secret set GITHUB_TOKEN --from 'cmd:pass show github'"};
inline constexpr std::array kSecretListOptions = {
    Option{'a', "all", "", "", "Also the variables whose hosts mvm knows, stored or not."}, kJson};
inline constexpr std::array<std::string_view, 2> kSecretListExamples = {"mvm secret ls",
                                                                        "mvm secret ls --all"};
inline constexpr std::array kSecretRemoveOptions = {kQuiet};
inline constexpr std::array<std::string_view, 1> kSecretRemoveExamples = {
    "mvm secret rm OPENAI_API_KEY"};
inline constexpr std::array kSecretTestOptions = {Option{0, "from", "", "REFERENCE", "Look there."},
                                                  kJson};
inline constexpr std::array<std::string_view, 2> kSecretTestExamples = {
    "mvm secret test OPENAI_API_KEY", "mvm secret test API_KEY --from file:~/.api-key"};

// ---- mvm itself

inline constexpr std::array kFilePositional = {
    Positional{"FILE", "The manifest. Default: mvm.toml.", false, false, Offer::Files}};
inline constexpr std::array kConfigOptions = {kJson};
inline constexpr std::array<std::string_view, 2> kValidateExamples = {
    "mvm config validate", "mvm config validate box.toml"};
inline constexpr std::array<std::string_view, 2> kShowExamples = {
    "mvm config show", "MVM_CPUS=4 mvm config show --json"};
inline constexpr std::array kScanPositional = {
    Positional{"FILE", "The file to look through.", true, false, Offer::Files}};
inline constexpr std::array<std::string_view, 2> kScanExamples = {
    "mvm policy scan notes.txt", "mvm policy scan --json export.csv"};
inline constexpr std::array kDaemonOptions = {
    Option{0, "metrics-listen", "", "ADDRESS:PORT",
           "Serve figures at /metrics there; a loopback address, such as 127.0.0.1:9464."},
    Option{0, "audit-sync", "", "WHEN",
           "When records of every audit log are on the disk: normal, within a second, or strict, "
           "before what they tell of is done. Default: MVM_AUDIT_SYNC, else normal."},
    Option{0, "ready-fd", "", "FD", "Close this descriptor when serving.", false, true}};
inline constexpr std::array<std::string_view, 1> kDaemonExamples = {"mvm daemon"};
inline constexpr std::array<std::string_view, 1> kDaemonStatusExamples = {
    "mvm daemon status --json"};
inline constexpr std::array<std::string_view, 1> kDaemonStopExamples = {"mvm daemon stop"};
inline constexpr std::array kJsonOnly = {kJson};
inline constexpr std::array kExplainPositionals = {
    Positional{"REQUEST", "A URL, a host or an address; with a method in front, one request to it.",
               true, true}};
inline constexpr auto kExplainOptions = joined(std::array{kManifest}, kNetwork, std::array{kJson});
inline constexpr std::array<std::string_view, 3> kExplainExamples = {
    "mvm policy explain https://example.com",
    "mvm policy explain POST https://api.example.com/v1/items",
    "mvm policy explain --allow-host '*.example.com' --json https://cdn.example.com:8443/"};
inline constexpr std::array kDoctorOptions = {
    Option{0, "only", "", "CHECK", "Only this check, such as kvm. May be given many times.", true},
    kJson};
inline constexpr std::array<std::string_view, 3> kDoctorExamples = {
    "mvm doctor", "mvm doctor --only kvm", "mvm doctor --json"};
inline constexpr std::array kShellPositional = {
    Positional{"SHELL", "bash, zsh or fish.", true, false, Offer::Shells}};
inline constexpr std::array<std::string_view, 3> kCompletionExamples = {
    "source <(mvm completion bash)", "mvm completion zsh >\"${fpath[1]}/_mvm\"",
    "mvm completion fish >~/.config/fish/completions/mvm.fish"};
inline constexpr std::array<std::string_view, 1> kVersionExamples = {"mvm version"};
inline constexpr std::array kHelpPositionals = {
    Positional{"COMMAND", "The command, in one or two words.", false, true, Offer::Commands}};
inline constexpr std::array kHelpOptions = {
    Option{0, "markdown", "", "", "The whole reference as Markdown.", false, true}};
inline constexpr std::array<std::string_view, 2> kHelpExamples = {"mvm help",
                                                                  "mvm help image import"};

inline constexpr std::string_view kSandboxes = "Sandboxes";
inline constexpr std::string_view kFiles = "Files of a sandbox";
inline constexpr std::string_view kImages = "Images and kernels";
inline constexpr std::string_view kAudit = "Audit";
inline constexpr std::string_view kSecretsGroup = "Secrets";
inline constexpr std::string_view kItself = "mvm itself";

}
