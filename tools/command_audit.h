/*  command_audit -- `tureen audit`: whether the ids that clients recorded are epochs as training assumes.  */
#ifndef COMMAND_AUDIT_H
#define COMMAND_AUDIT_H

//  argv[0] is "audit".  Exit status: 0 clean, 1 faults, 2 unusable arguments or files (why is on stderr).
int command_audit (int argc, char **argv);

#endif
