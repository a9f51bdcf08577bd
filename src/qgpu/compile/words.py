"""What every signal, unit and row of a map means, in words, and under which names its numbers are found in other tools.

`described` adds this to a signal map when it is written beside a checkpoint; `qgpu explain` prints it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HOOKS = {
    "residual": "hidden state after layer b (0: the embedding), dim d, as a number of its own",
    "transformers": {"residual": "output.hidden_states[{b}][batch, token, {d}] with output_hidden_states=True; the last entry is normalised"},
    "qgpu.qwen.hooks": {
        "residual": "blocks.{b}.hook_resid_pre (n, D): after layer b, before layer b + 1",
        "unit f": "blocks.{i}.linear_attn.hook_v_pre_conv (n, heads, 128): 128 f at [token, head, value dim]",
        "unit g": "blocks.{i}.linear_attn.hook_gate_input: 128 g at the same place",
        "unit h": "blocks.{i}.linear_attn.hook_normed_gated: 2^-23 h at the same place",
        "row written": "blocks.{i}.linear_attn.hook_k_pre_conv (n, heads, 128): 128 where the row is addressed, at [token, head, row]",
        "row read": "blocks.{i}.linear_attn.hook_q_pre_conv: the same for reading",
        "row": "blocks.{i}.linear_attn.hook_state (heads, 128, 128): 128 times the value at [head, row, value dim]"},
    "TransformerLens": {"residual": "blocks.{b}.hook_resid_pre, or blocks.{i}.hook_resid_post after layer i + 1"},
    "where": "layer L of the map is block i = L - 1; value dim j + 2 is item j of a head",
}

MINIMUM = {"idle": "inactive lanes' targets of the current group", "written": "targets of the group that this token may change",
           "groups": "smallest targets of the warp's other groups", "all_groups": "targets of the warp's lanes that do not run",
           "if_fall": "targets if every active lane falls through", "if_taken": "targets if every active lane takes the branch",
           "if_both": "targets if active lanes do both"}
UNIT_GROUPS = {"record": "last tokens and the value sent", "front": "scheduling", "tail": "what comes next", "clear": "clearing dims",
               "constants": "constants of a merged circuit", "store": "stores"}
PARTS = {"add": "addition", "logic": "bitwise operations", "compare": "comparison", "shift": "shift", "mul": "multiply and add", "bits": "bit counts",
         "mulhi": "high word of a product"}
OPERANDS = {"a": "operand A", "b": "operand B (complemented to subtract)", "c": "operand C", "b_register": "the register that may be operand B"}
CLEAR_NOTES = {
    "first": "the smaller number is the first", "second": "the smaller number is the second",
    "its turn": "the item whose turn it is: as many before it as have been sent", "done": "every item is sent: go on",
    "cleared": "this block clears the ballot", "the selected source": "the selected source's bit, for two sources at once",
    "complement of nothing": "nothing is selected: its complement, to subtract",
    "in no window": "the address lies in no window of memory, or in both", "data to store": "operand C is the data to store",
}


SIGNALS: list[tuple[str, str]] = [
    (r"code\.kind\.(\w+)", "+1 if this token is {0}, else -1"),
    (r"code\.payload(\d+)", "bit {0} of this token's payload, as +1 or -1"),
    (r"code\.on", "+1 at every token of the machine"),
    (r"tail\.next\.kind\.(\w+)", "2^40 if the next token is {0}, else -2^40"),
    (r"tail\.next\.payload(\d+)", "bit {0} of the next token's payload, as +2^40 or -2^40"),
    (r"tail\.next\.on", "2^40 at every token"),
    (r"constant(\d+)", "2^20: constant dim {0}, which keeps the norm still"),
    (r"next\.one(\d+)", "the next token's dim {0} that always holds +1"),
    (r"record\.val_before(\d+)", "1 if the token {0} before this one was VAL"),
    (r"record\.chunk_before(\d+)\.(\d+)", "bit {1} of the payload of the token {0} before this one"),
    (r"record\.value(\d+)", "bit {0} of the value that this token completes"),
    (r"record\.next_chunk(\d+)", "1 if the next chunk of a value is number {0}"),
    (r"front\.run", "1 at EXEC and NEXT: a block runs"),
    (r"front\.warp\.(\d+)", "the last WARP token: bit {0} of warp number, then flags parked and first"),
    (r"front\.config\.(\d+)", "the last CONFIG token: bit {0} of last warp, its last group, that group's missing lanes"),
    (r"front\.is_last_warp", "1 if the current warp is the last of the thread block"),
    (r"front\.running\.0", "1 from EXEC or NEXT until the next control token: a block runs or its results are sent"),
    (r"front\.block\.(\d+)", "bit {0} of the current block of the program"),
    (r"front\.group\.(\d+)", "bit {0} of the current group"),
    (r"front\.group_before(\d+)", "bit {0} of the group that was current at the token before"),
    (r"front\.written_group(\d+)", "bit {0} of the group whose targets this token may change"),
    (r"front\.beyond", "1 if the current group lies behind the last one with threads"),
    (r"front\.at_last", "1 if the current group is the last one with threads"),
    (r"front\.after_control", "1 if the token before was PARK or WARP"),
    (r"front\.grid_([xyz])\.(\d+)", "bit {1} of the last thread block's index along {0}"),
    (r"front\.index_([xyz])\.(\d+)", "bit {1} of the thread block's index along {0}"),
    (r"front\.is_last_([xyz])", "1 if the thread block is the last along {0}"),
    (r"front\.after_block_([xyz])", "1 if the token before was BLOCK({0})"),
    (r"front\.next_([xyz])(\d+)", "bit {1} of the next thread block's index along {0}, 0 after the last"),
    (r"front\.next_warp(\d+)", "bit {0} of the current warp's number plus 1"),
    (r"front\.count_power", "128 * 2^-n, n items sent since the last EXEC or NEXT"),
    (r"front\.count(\d+)", "1 if {0} items have been sent since the last EXEC or NEXT"),
    (r"front\.dest(\d+)_(\d+)", "bit {1} of the register that stage {0} of the running block writes"),
    (r"front\.held\.dest(\d+)_(\d+)", "bit {1} of the register that stage {0} of the block before this token writes"),
    (r"front\.(fall|taken)_(\d+)", "bit {1} of the running block's {0} target"),
    (r"front\.held\.(fall|taken)_(\d+)", "bit {1} of the {0} target of the block before this token"),
    (r"front\.live_(\d+)", "1 if the result of stage {0} (from 0) of the running block is sent"),
    (r"front\.(branch|store|barrier|vote|clear)_0", "the running block's flag `{0}`"),
    (r"front\.held\.vote_0", "1 if the block before this token votes"),
    (r"front\.starts", "1 if a warp or a group starts: its lanes' targets become block 0"),
    (r"front\.retarget(\d+)", "1 if lane {0}'s target changes at this token"),
    (r"front\.new_target(\d+)\.(\d+)", "bit {1} of lane {0}'s new target"),
    (r"front\.target(\d+)\.(\d+)", "bit {1} of the block that lane {0} of the current group runs next; the top one is EXIT"),
    (r"front\.written(\d+)\.(\d+)", "bit {1} of lane {0}'s target, in the group whose targets this token may change"),
    (r"front\.active(\d+)", "1 if lane {0} is active: its target is the running block"),
    (r"front\.clears", "1 if the block that starts clears the ballot"),
    (r"front\.ballot_write(\d+)", "1 if group {0}'s ballot bits are written"),
    (r"front\.ballot(\d+)", "the current warp's ballot, lane {0}"),
    (r"front\.item_s(\d+)_l(\d+)", "1 if stage {0}'s result of lane {1} is to be sent"),
    (r"front\.storing(\d+)", "1 if lane {0} stores in this block"),
    (r"front\.has_item_s(\d+)_l(\d+)", "item_s{0}_l{1} of the last run"),
    (r"front\.has_store(\d+)", "1 if lane {0} stores, in the last run"),
    (r"front\.ran(\d+)", "1 if lane {0} was active in the last run"),
    (r"front\.select_s(\d+)_l(\d+)", "1 if the value to be sent now is stage {0}'s result of lane {1}"),
    (r"front\.finished_s(\d+)_l(\d+)", "1 if this token completes stage {0}'s result of lane {1}"),
    (r"front\.select_data(\d+)", "1 if the value to be sent now is lane {0}'s store data"),
    (r"front\.select_store(\d+)", "1 if lane {0}'s word number is to be sent now"),
    (r"front\.done", "1 if every item of the last run is sent"),
    (r"front\.write_dest(\d+)", "bit {0} of the register that this token's value goes to"),
    (r"front\.write_lane(\d+)", "1 if this token's value goes to a register of lane {0}"),
    (r"store\.data(\d+)\.(\d+)", "bit {1} of the data that lane {0} stores"),
    (r"store\.word(\d+)\.(\d+)", "bit {1} of the word number that lane {0} stores at; the top one is shared memory"),
    (r"store\.bad_addresses(\d+)", "how many things are wrong with addresses of active lanes in stage {0}"),
    (r"s(\d+)\.p(\d+)_(\d+)", "stage {0}: bit {2} of the field of register port {1}"),
    (r"s(\d+)\.r([abc])_(\d+)", "stage {0}: bit {2} of the register number for operand {1}"),
    (r"s(\d+)\.([abc])_p(\d+)", "stage {0}: 1 if operand {1} is what register port {2} reads"),
    (r"s(\d+)\.([abc])_r(\d+)", "stage {0}: 1 if operand {1} is the result of stage {2}"),
    (r"s(\d+)\.([ab])_imm", "stage {0}: 1 if operand {1} is the immediate"),
    (r"s(\d+)\.op_(\w+)", "stage {0}: the operation line `{1}`"),
    (r"s(\d+)\.a_(tid|cta[xyz]|ballot)", "stage {0}: 1 if operand a is `{1}`"),
    (r"s(\d+)\.imm(\d+)", "stage {0}: bit {1} of the immediate"),
    (r"s(\d+)\.port(\d+)_(\d+)\.(\d+)", "stage {0}, lane {2}: bit {3} of the register that port {1} reads"),
    (r"s(\d+)\.partial(\d+)\.(\d+)", "stage {0}, lane {1}: bit {2} of the result after the first level (sums within bytes, logic, shuffle)"),
    (r"s(\d+)\.l(\d+)\.sum(\d+)", "stage {0}, lane {1}: bit {2} of the result after the second level: sums are complete, addresses too"),
    (r"s(\d+)\.l(\d+)\.r(\d+)", "stage {0}, lane {1}: bit {2} of the result"),
    (r"s(\d+)\.l(\d+)\.loaded(\d+)", "stage {0}, lane {1}: bit {2} of the word loaded from memory"),
    (r"s(\d+)\.l(\d+)\.holds", "stage {0}, lane {1}: 1 if the comparison holds, or bit 0 of C chooses A"),
    (r"s(\d+)\.l(\d+)\.add\.add\.carry(\d+)", "stage {0}, lane {1}: carry out of the byte below bit {2}, when none comes into that byte"),
    (r"s(\d+)\.l(\d+)\.compare\.compare\.order(\d+)", "stage {0}, lane {1}: 0, 1 or 2 for A's byte at bit {2} less than, equal to or greater than B's"),
    (r"s(\d+)\.l(\d+)\.shift\.shift\.at(\d+)", "stage {0}, lane {1}: 1 if the shift's last step reads {2} bits up"),
    (r"s(\d+)\.l(\d+)\.shift\.shift\.(right|left)(\d+)", "stage {0}, lane {1}: 1 if a {2} shift takes its window by eights in step {3}"),
    (r"s(\d+)\.l(\d+)\.shift\.shift\.u(\d+)", "stage {0}, lane {1}: bit {2} of the word shifted by eights, 39 bits wide"),
    (r"s(\d+)\.l(\d+)\.(?:mul|mulhi)\.\w+\.sum(\d+)([ab]?)", "stage {0}, lane {1}: sum of bit products at digit {2} (weight 16^{2}) {3}"),
    (r"s(\d+)\.l(\d+)\.mulhi\.\w+\.coarse(\d+)", "stage {0}, lane {1}: digit {2} of the product, after the division by 64"),
    (r"s(\d+)\.l(\d+)\.(?:mul|mulhi)\.\w+\.digit(\d+)", "stage {0}, lane {1}: digit {2} of the product, radix 16, before carries"),
    (r"s(\d+)\.l(\d+)\.mul\.multiply\.carry(\d+)", "stage {0}, lane {1}: carry into digit {2} from digits below it in its half"),
    (r"s(\d+)\.l(\d+)\.mul\.multiply\.across", "stage {0}, lane {1}: carry from the lower half of the digits to the upper"),
    (r"s(\d+)\.l(\d+)\.mul\.multiply\.open(\d+)", "stage {0}, lane {1}: 1 if a carry across the halves reaches digit {2}"),
    (r"s(\d+)\.l(\d+)\.(?:mul|mulhi)\.\w+\.low([\d.]+)", "stage {0}, lane {1}: digit {2} mod 8"),
    (r"s(\d+)\.l(\d+)\.(?:mul|mulhi)\.\w+\.eight([\d.]+)", "stage {0}, lane {1}: bit 3 of digit {2} before carries"),
    (r"s(\d+)\.l(\d+)\.mulhi\.\w+\.out(\d+)", "stage {0}, lane {1}: carry out of digit group {2}"),
    (r"s(\d+)\.l(\d+)\.mulhi\.\w+\.full(\d+)", "stage {0}, lane {1}: 1 if a carry passes through digit group {2}"),
    (r"s(\d+)\.l(\d+)\.mulhi\.\w+\.known(\d+)\.(\d+)", "stage {0}, lane {1}: carry into digit {3} of group {2} from those below it in the group"),
    (r"s(\d+)\.l(\d+)\.mulhi\.\w+\.open(\d+)\.(\d+)", "stage {0}, lane {1}: 1 if a carry into group {2} reaches its digit {3}"),
    (r"tail\.value(\d+)", "bit {0} of the value to be sent now"),
    (r"tail\.word(\d+)", "bit {0} of the word number to be sent now"),
    (r"tail\.took(\d+)", "1 if lane {0} took the branch (or voted 1) in the last run"),
    (r"tail\.next_if_(fall|taken|both)\.(\d+)", "if_{0}, bit {1}, of the last run"),
    (r"tail\.next_barrier", "1 if the last run's block is a barrier"),
    (r"tail\.has_next_group", "1 if a later group of the warp has the last run's block to run"),
    (r"tail\.next_group(\d+)", "bit {0} of that group's number"),
    (r"tail\.group(\d+)_target(\d+)", "bit {1} of the smallest target in group {0} of the current warp"),
    (r"tail\.runs(\d+)", "1 if group {0} runs at this token"),
    (r"tail\.waits(\d+)", "1 if group {0}, a later one, has this block to run"),
    (r"tail\.behind(\d+)", "1 if group {0} comes after the current one"),
    (r"tail\.later(\d+)", "1 if group {0} is the next to run this block"),
    (r"tail\.resume", "1 if a warp goes on where it stopped"),
    (r"tail\.start", "1 if a warp begins at block 0"),
    (r"tail\.next_init", "1 if the next group has to be started"),
    (r"tail\.init_group(\d+)", "bit {0} of the next group's number"),
    (r"tail\.parks", "1 if a warp of this round is parked, this one included"),
    (r"tail\.moves", "1 if the warp's turn is over"),
    (r"tail\.to_warp", "1 if the next warp comes now"),
    (r"tail\.to_round", "1 if a new round over the warps begins now"),
    (r"tail\.to_block", "1 if the next thread block comes now"),
    (r"tail\.to_end", "1 if the launch ends now"),
    (r"tail\.go_(fall|taken|both)", "1 if the warp goes on with the block of the case `{0}`"),
    (r"tail\.bad_stage(\d+)", "1 if an active lane used a bad address in stage {0}"),
    (r"tail\.trapped", "1 if any active lane used a bad address: the launch stops"),
]
PATTERNS = [(re.compile(pattern), words) for pattern, words in SIGNALS]
OPERAND = re.compile(r"s(\d+)\.(a|b|c|b_register)(\d+)\.(\d+)")
SMALLER = re.compile(r"tail\.([a-z_]+?)(?:(\d+)_(\d+))?\.(less|\d+)")


def meaning(name: str) -> str:
    """What a signal means; "" for a name that is none of the circuit's."""
    if found := OPERAND.fullmatch(name):
        stage, operand, lane, bit = found.groups()
        return f"stage {stage}, lane {lane}: bit {bit} of {OPERANDS[operand]}"
    for pattern, words in PATTERNS:
        if found := pattern.fullmatch(name):
            return words.format(*found.groups()).strip()
    if (found := SMALLER.fullmatch(name)) and found[1] in MINIMUM:
        which = MINIMUM[found[1]] + (f", round {found[2]}, pair {found[3]}" if found[2] else "")
        return f"1 if the first of two {which} is the smaller" if found[4] == "less" else f"bit {found[4]} of the smallest of the {which}"
    return ""


def part_words(group: str) -> str:
    """A unit's place in the machine, by its group such as `s2.l0.mul.multiply`."""
    found = re.match(r"s(\d+)(?:\.l(\d+))?(?:\.(\w+))?", group)
    if not found:
        return UNIT_GROUPS.get(group, group)
    stage, lane, part = found.groups()
    what = PARTS.get(part, "choice, addresses, stores" if lane else "operands and shuffle")
    return f"stage {stage}" + (f", lane {lane}" if lane else "") + f", {what}"


def note_words(note: str) -> str:
    """A unit's note, where it is short, in more words."""
    return CLEAR_NOTES.get(note, note)


def row_words(head: Mapping, row: int) -> str:
    """What a memory head's row stands for."""
    return head["rows"].get(str(row)) or f"the one row: {head['note']}"


def described(signal_map: dict) -> dict:
    """The map with words: signals get a "meaning", memory heads names for all rows, and "hooks" says where numbers are found."""
    def rows(head: dict) -> dict:
        if head["kind"] != "memory":
            return head
        return {**head, "rows": {r: row_words(head, int(r)) for r in {**head["key"], **head["query"]}}}

    return {**signal_map, "signals": [{**s, "meaning": meaning(s["name"])} for s in signal_map["signals"]],
            "layers": [{"heads": [rows(h) for h in layer["heads"]]} for layer in signal_map["layers"]], "hooks": HOOKS}
